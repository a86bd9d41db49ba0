"""The fanout plane: from the event log to whoever is online.

Reads Kafka and DynamoDB, writes Redis only; its DynamoDB client refuses to write. Delivers at least once: progress is
remembered after the work is done, and clients show a sequence once.
"""
