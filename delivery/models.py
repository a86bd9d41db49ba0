"""The table `delivery_state` (docs/architecture.md). Private to this app."""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from foundation.stores.dynamodb.table import ON_DEMAND, Table


class DeliveryStateModel(Table):
    """How far a user has received a chat. Only ever moves forward."""

    class Meta:
        table_name = "delivery_state"
        billing_mode = ON_DEMAND

    user_id = UnicodeAttribute(hash_key=True)
    chat_id = UnicodeAttribute(range_key=True)
    last_acked_sequence = NumberAttribute()
    updated_at = UnicodeAttribute()
