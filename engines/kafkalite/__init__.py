"""Kafka in one process, with its log in memory.

It speaks Kafka's protocol over TCP: topics and partitions, idempotent producers, consumer groups with rebalances and
committed offsets. Each partition keeps its last megabytes; a restart loses them. Every request is offered in a few
versions that current clients speak. A request that is not offered closes its connection.

Not implemented: replicas, transactions, retention by time, checksums, topics created by clients.

Reading order: `server` (connections and frames), `broker` (requests and responses), `fetches` (fetches that wait for
records), `log` (partitions), `groups` (consumer groups), `wire` (protocol types). `python -m engines.kafkalite --help`
runs it alone.
"""
