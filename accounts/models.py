"""The tables `users` and `sessions` (docs/architecture.md). Private to this app."""

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, KeysOnlyProjection

from foundation.stores.dynamodb.table import PROVISIONED, Table


class PhoneNumberIndex(GlobalSecondaryIndex["UserModel"]):
    """Finds a user by phone number. Sparse: claims have no `phone_number` and are not in it."""

    class Meta:
        index_name = "phone_number-index"
        projection = KeysOnlyProjection()
        read_capacity_units = 10
        write_capacity_units = 5

    phone_number = UnicodeAttribute(hash_key=True)


class UserModel(Table):
    """A user, or the claim `phone#<E.164>` that makes a phone number unique and holds its `owner_id`.

    `read_receipts` and `show_presence` are on where they are absent.
    """

    class Meta:
        table_name = "users"
        billing_mode = PROVISIONED
        read_capacity_units = 20
        write_capacity_units = 5

    user_id = UnicodeAttribute(hash_key=True)
    phone_number = UnicodeAttribute(null=True)
    phone_verified = BooleanAttribute(null=True)
    display_name = UnicodeAttribute(null=True)
    created_at = UnicodeAttribute(null=True)
    updated_at = UnicodeAttribute(null=True)
    suspended_at = UnicodeAttribute(null=True)
    read_receipts = BooleanAttribute(null=True)
    show_presence = BooleanAttribute(null=True)
    last_seen = UnicodeAttribute(null=True)
    owner_id = UnicodeAttribute(null=True)
    phone_number_index = PhoneNumberIndex()


class UserSessionsIndex(GlobalSecondaryIndex["SessionModel"]):
    """Lists a user's sessions."""

    class Meta:
        index_name = "user_sessions-index"
        projection = AllProjection()
        read_capacity_units = 10
        write_capacity_units = 5

    user_id = UnicodeAttribute(hash_key=True)


class SessionModel(Table):
    """The login of one device. The nullable attributes allow a repeated refresh (ADR-010)."""

    class Meta:
        table_name = "sessions"
        billing_mode = PROVISIONED
        read_capacity_units = 10
        write_capacity_units = 5

    session_id = UnicodeAttribute(hash_key=True)
    user_id = UnicodeAttribute()
    device_id = UnicodeAttribute()
    refresh_token_hash = UnicodeAttribute()
    previous_token_hash = UnicodeAttribute(null=True)
    rotation_salt = UnicodeAttribute(null=True)
    rotated_at = UnicodeAttribute(null=True)
    created_at = UnicodeAttribute()
    expires_at = UnicodeAttribute()
    ttl = NumberAttribute()
    user_sessions_index = UserSessionsIndex()
