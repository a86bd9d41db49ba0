"""DynamoDB on one SQLite file: the engine of the default run.

It speaks DynamoDB's JSON protocol over HTTP (the operations in `service`, `reading` and `writing`, with condition,
update, key, filter and projection expressions) and keeps its promises: transactions are atomic and isolated, every
read is strongly consistent, and nothing is answered before it is on disk. All requests that are waiting at one moment
share one SQLite transaction, so that a busy moment costs one `fsync`.

What it answers, it answers as DynamoDB does; what it does not offer, it refuses by name. A test compares it with
DynamoDB Local, request by request (`tests/real/test_dynamolite_differences.py`).

Reading order: `server` (HTTP), `service` (groups of requests), `writing` and `reading` (operations), `tables` and
`creation` (keys and indexes), `rows` (SQLite), `expressions` (and what they are made of: `parsing`, `conditions`,
`updates`, `paths`, `placeholders`), `values`. `python -m engines.dynamolite --help` runs it alone. Nothing in
here knows Parley.
"""
