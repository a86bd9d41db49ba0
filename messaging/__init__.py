"""Messages: the ingest path, history, idempotency.

Owns the tables `messages` and `idempotency_keys`. A message is stored before it is announced: a crash in between delays
its delivery and never loses it.
"""
