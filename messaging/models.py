"""The tables `messages` and `idempotency_keys` (docs/architecture.md). Private to this app."""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from foundation.stores.dynamodb.table import ON_DEMAND, Table


class MessageModel(Table):
    """A message at its place in a chat."""

    class Meta:
        table_name = "messages"
        billing_mode = ON_DEMAND

    chat_id = UnicodeAttribute(hash_key=True)
    sequence = NumberAttribute(range_key=True)
    message_id = UnicodeAttribute()
    sender_id = UnicodeAttribute()
    client_message_id = UnicodeAttribute()
    content = UnicodeAttribute()
    content_type = UnicodeAttribute()
    created_at = UnicodeAttribute()


class IdempotencyKeyModel(Table):
    """What a client's id led to. Under `request#<user_id>` it remembers a chat's creation instead of a message."""

    class Meta:
        table_name = "idempotency_keys"
        billing_mode = ON_DEMAND

    chat_id = UnicodeAttribute(hash_key=True)
    client_message_id = UnicodeAttribute(range_key=True)
    message_id = UnicodeAttribute(null=True)
    sequence = NumberAttribute(null=True)
    created_chat_id = UnicodeAttribute(null=True)
    created_at = UnicodeAttribute()
    ttl = NumberAttribute()
