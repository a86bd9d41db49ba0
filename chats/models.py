"""The tables `chats`, `chat_memberships` and `chat_counters` (docs/architecture.md). Private to this app."""

from typing import Any

from pynamodb.attributes import ListAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex

from foundation.stores.dynamodb.table import ON_DEMAND, PROVISIONED, Table


class ChatModel(Table):
    """A chat, or the claim `direct#<user>#<user>` that makes a direct chat unique and holds its `direct_chat_id`."""

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
    pins: ListAttribute[Any] = ListAttribute(of=NumberAttribute, null=True)
    direct_chat_id = UnicodeAttribute(null=True)


class UserChatsIndex(GlobalSecondaryIndex["MembershipModel"]):
    """Lists a user's chats: the keys of the table, inverted."""

    class Meta:
        index_name = "user_chats-index"
        projection = AllProjection()
        read_capacity_units = 50
        write_capacity_units = 5

    user_id = UnicodeAttribute(hash_key=True)
    chat_id = UnicodeAttribute(range_key=True)


class MembershipModel(Table):
    """A user's membership in a chat. Without it, the user may neither read nor send.

    `joined_sequence` is the notice of the joining; absent for the first members.
    """

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
    joined_sequence = NumberAttribute(null=True)
    user_chats_index = UserChatsIndex()


class CounterModel(Table):
    """The latest sequence of a chat, written in the transaction of the entries it numbers.

    `departures` counts the memberships that have ended, `others` the entries that are no messages, `members` the
    members. `last_other` is the sequence of the last entry that is no message, `last_message` that of the last message
    before it. All are absent while there is nothing to count, `members` in chats that are older than it.
    """

    class Meta:
        table_name = "chat_counters"
        billing_mode = ON_DEMAND

    chat_id = UnicodeAttribute(hash_key=True)
    sequence_counter = NumberAttribute()
    departures = NumberAttribute(null=True)
    others = NumberAttribute(null=True)
    last_other = NumberAttribute(null=True)
    last_message = NumberAttribute(null=True)
    members = NumberAttribute(null=True)
    created_at = UnicodeAttribute(null=True)
    updated_at = UnicodeAttribute(null=True)
