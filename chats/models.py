"""`chats`, `chat_memberships` and `chat_counters`, as ADR-007 §2.5, §2.6 and §2.2 define them. Private to this app."""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex

from foundation.stores.dynamodb.table import ON_DEMAND, PROVISIONED, Table


class ChatModel(Table):
    """A chat, or the claim `direct#<user>#<user>` that makes a direct chat unique (it holds `direct_chat_id` only)."""

    class Meta:
        table_name = "chats"
        billing_mode = PROVISIONED
        read_capacity_units = 30
        write_capacity_units = 5

    chat_id = UnicodeAttribute(hash_key=True)
    chat_type = UnicodeAttribute(null=True)
    name = UnicodeAttribute(null=True)
    created_by = UnicodeAttribute(null=True)
    created_at = UnicodeAttribute(null=True)
    updated_at = UnicodeAttribute(null=True)
    direct_chat_id = UnicodeAttribute(null=True)


class UserChatsIndex(GlobalSecondaryIndex["MembershipModel"]):
    """Lists a user's chats: the keys of the base table, inverted."""

    class Meta:
        index_name = "user_chats-index"
        projection = AllProjection()
        read_capacity_units = 50
        write_capacity_units = 5

    user_id = UnicodeAttribute(hash_key=True)
    chat_id = UnicodeAttribute(range_key=True)


class MembershipModel(Table):
    """A user's place in a chat. Without this item the user may neither read nor send."""

    class Meta:
        table_name = "chat_memberships"
        billing_mode = PROVISIONED
        read_capacity_units = 50
        write_capacity_units = 5

    chat_id = UnicodeAttribute(hash_key=True)
    user_id = UnicodeAttribute(range_key=True)
    role = UnicodeAttribute()
    joined_at = UnicodeAttribute()
    muted_until = UnicodeAttribute(null=True)
    user_chats_index = UserChatsIndex()


class CounterModel(Table):
    """The highest sequence of a chat, which moves only together with the messages it numbers, and its departures.

    `departures` counts the memberships that have ended; there is none before the first.
    """

    class Meta:
        table_name = "chat_counters"
        billing_mode = ON_DEMAND

    chat_id = UnicodeAttribute(hash_key=True)
    sequence_counter = NumberAttribute()
    departures = NumberAttribute(null=True)
    created_at = UnicodeAttribute(null=True)
    updated_at = UnicodeAttribute(null=True)
