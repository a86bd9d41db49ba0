"""DynamoDB on one SQLite file.

It speaks DynamoDB's JSON protocol over HTTP and supports condition, update, key, filter and projection expressions.
Transactions are atomic and isolated, every read is strongly consistent, and every write is on disk before its response.
All requests that arrive in one iteration of the event loop share a transaction, and so one `fsync`.

Responses and errors are those of DynamoDB; `tests/real/test_dynamolite_differences.py` compares them with DynamoDB
Local, request by request. An operation or a parameter that is not implemented is rejected by name.

Reading order: `server` (HTTP), `service` (operations and batches of requests), `writing` and `reading` (item
operations), `schema` and `creation` (keys and indexes), `store` (SQLite), `journal` (durability between commits),
`expressions` (with `parsing`, `conditions`, `updates`, `paths`, `placeholders`), `values`; `delay` for measurements.
`python -m engines.dynamolite --help` runs it alone.
"""
