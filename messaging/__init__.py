"""What: messages. Gives each draft its place in its chat, stores it, then announces it; reads history.

Owns the tables `messages` and `idempotency_keys`. Stored before announced: a crash between the two delays a delivery
and never loses a message.
"""
