"""Kafka in one small process: the engine of the default run.

It speaks Kafka's own protocol over TCP: topics and partitions, idempotent producers, consumer groups with their
rebalances and offsets. A fetch is answered as soon as there is something to answer it with. The log is in memory, the
last megabytes of each partition: what Kafka carries is derived from DynamoDB, and after a restart clients catch up from
there. Each request is offered in a few versions that current clients speak; whatever else is asked closes the
connection.

What it does not do: replicas, transactions, retention by time, checksums of what it is given, topics made by clients.

Reading order: `server` (frames on a connection), `broker` (requests and answers), `fetches` (who waits for news), `log`
(partitions), `groups` (who reads what), `wire` (Kafka's types). `python -m engines.kafkalite --help` runs it
alone. Nothing in here knows Parley.
"""
