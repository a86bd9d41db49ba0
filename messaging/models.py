"""The tables `messages` and `idempotency_keys` (docs/architecture.md). Private to this app."""

from typing import Any

from pynamodb.attributes import JSONAttribute, ListAttribute, NumberAttribute, UnicodeAttribute

from foundation.stores.dynamodb.table import ON_DEMAND, Table


class MessageModel(Table):
    """An entry at its place in a chat. `kind` is absent for messages, as is everything that an entry does not have.

    A reaction is an attribute `reaction:<emoji>`, the set of the users' ids.
    """

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
    others = NumberAttribute(null=True)
    kind = UnicodeAttribute(null=True)
    reply_to = NumberAttribute(null=True)
    mentions: ListAttribute[Any] = ListAttribute(of=UnicodeAttribute, null=True)
    edited_at = UnicodeAttribute(null=True)
    deleted_at = UnicodeAttribute(null=True)
    last_change = NumberAttribute(null=True)
    target = NumberAttribute(null=True)
    emoji = UnicodeAttribute(null=True)
    action = UnicodeAttribute(null=True)
    notice = JSONAttribute(null=True)


class IdempotencyKeyModel(Table):
    """What a client's id led to. Under `request#<user_id>` it remembers a chat's creation instead of a message."""

    class Meta:
        table_name = "idempotency_keys"
        billing_mode = ON_DEMAND

    chat_id = UnicodeAttribute(hash_key=True)
    client_message_id = UnicodeAttribute(range_key=True)
    message_id = UnicodeAttribute(null=True)
    sequence = NumberAttribute(null=True)
    digest = UnicodeAttribute(null=True)
    created_chat_id = UnicodeAttribute(null=True)
    created_at = UnicodeAttribute()
    ttl = NumberAttribute()
