"""The table `delivery_state` (docs/architecture.md). Private to this app."""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from foundation.stores.dynamodb.table import ON_DEMAND, Table


class DeliveryStateModel(Table):
    """How far a user has received and read a chat. Each mark only ever moves forward; one that is absent is 0."""

    class Meta:
        table_name = "delivery_state"
        billing_mode = ON_DEMAND

    user_id = UnicodeAttribute(hash_key=True)
    chat_id = UnicodeAttribute(range_key=True)
    last_acked_sequence = NumberAttribute(null=True)
    last_read_sequence = NumberAttribute(null=True)
    updated_at = UnicodeAttribute()
