"""Creates chats, atomically and idempotently.

One transaction writes the chat, its counter and its members. If a group has too many members for one transaction, its
memberships are written first; they stay invisible until the transaction that writes the chat and its owner (ADR-012).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from accounts.services.directory import UserDirectory
from chats.domain import Chat, ChatDraft, ChatState, ChatType, Creation, Membership, Role
from chats.services.access import Access
from chats.services.chat_log import ChatLog
from chats.services.creation_keys import CreationKeys
from chats.services.event_publisher import EventPublisher
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.stores.dynamodb import TRANSACTION_ITEMS, Database, Write
from foundation.stores.errors import TransactionCancelled, TransactionConflict

MAX_MEMBERS_IN_TRANSACTION = TRANSACTION_ITEMS - 3
"""The other three items are the chat, its counter and the idempotency key."""


@dataclass(frozen=True, slots=True)
class CreationStores:
    """The tables that the creation of a chat writes."""

    database: Database
    chats: ChatStore
    memberships: MembershipStore
    counters: CounterStore
    keys: CreationKeys


class ChatCreation:
    """Creates direct chats and groups."""

    def __init__(
        self,
        *,
        stores: CreationStores,
        access: Access,
        users: UserDirectory,
        log: ChatLog,
        events: EventPublisher,
        clock: Clock,
        ids: IdFactory,
    ) -> None:
        self._stores = stores
        self._access = access
        self._users = users
        self._log = log
        self._events = events
        self._clock = clock
        self._ids = ids

    def create(self, creator_id: UserId, draft: ChatDraft, *, key: str | None = None) -> Creation:
        """Create the chat, or return the existing one of the same two users or of the same idempotency `key`.

        A key applies to groups only and is valid for 24 hours. The same key with another draft returns the first chat.
        Raises `Invalid`, with the errors by field.
        """
        others = draft.others(creator_id)
        if draft.type is ChatType.DIRECT:
            return self._create_direct(creator_id, others[0], draft)
        return self._create_group(creator_id, others, draft, key)

    def _create_direct(self, creator_id: UserId, partner_id: UserId, draft: ChatDraft) -> Creation:
        first = self._stores.chats.find_direct(creator_id, partner_id)
        if first is not None:
            return self._existing(first, creator_id)
        self._require_users([partner_id], draft)
        chat = self._new_chat(creator_id, draft)
        members = [_membership(chat, user_id, Role.MEMBER) for user_id in (creator_id, partner_id)]
        claim = self._stores.chats.claiming_direct(chat.chat_id, creator_id, partner_id)
        self._log.note(chat.chat_id)
        try:
            self._stores.database.transact([claim, *self._creating(chat, members, count=2)])
        except (TransactionCancelled, TransactionConflict) as error:
            first = self._stores.chats.find_direct(creator_id, partner_id)
            if first is None:
                raise TransactionConflict("Another request is creating this chat") from error
            if first != chat.chat_id:
                return self._existing(first, creator_id)
        return self._published(chat, members)

    def _create_group(
        self, creator_id: UserId, others: Sequence[UserId], draft: ChatDraft, key: str | None
    ) -> Creation:
        if (first := self._find_by_key(creator_id, key)) is not None:
            return self._existing(first, creator_id)
        self._require_users(others, draft)
        chat = self._new_chat(creator_id, draft)
        owner = _membership(chat, creator_id, Role.OWNER)
        members = [_membership(chat, user_id, Role.MEMBER) for user_id in others]
        prepared, atomic = (members, []) if len(members) >= MAX_MEMBERS_IN_TRANSACTION else ([], members)
        self._stores.memberships.prepare(prepared)
        self._log.note(chat.chat_id)
        try:
            writes = self._creating(chat, [owner, *atomic], count=len(members) + 1)
            self._stores.database.transact([*writes, *self._remembering_key(chat, key)])
        except (TransactionCancelled, TransactionConflict) as error:
            first = self._find_first(chat, key)
            if first is None:
                raise TransactionConflict("Another request is creating this chat") from error
            if first != chat.chat_id:
                self._stores.memberships.withdraw(prepared)
                return self._existing(first, creator_id)
        return self._published(chat, [owner, *members])

    def _creating(self, chat: Chat, members: Sequence[Membership], *, count: int) -> list[Write]:
        """The writes of a chat with `count` members, of which these are part of the transaction."""
        stores = self._stores
        return [
            stores.chats.creating(chat),
            stores.counters.creating(chat.chat_id, members=count, now=chat.created_at),
            *(stores.memberships.creating(membership) for membership in members),
        ]

    def _remembering_key(self, chat: Chat, key: str | None) -> list[Write]:
        if key is None:
            return []
        return [self._stores.keys.remembering(chat.created_by, key, chat_id=chat.chat_id, now=chat.created_at)]

    def _find_by_key(self, creator_id: UserId, key: str | None) -> ChatId | None:
        return None if key is None else self._stores.keys.find(creator_id, key, now=self._clock.now())

    def _find_first(self, chat: Chat, key: str | None) -> ChatId | None:
        """The chat that caused the conflict: another one with the same key, or this one, written by a lost attempt."""
        if (first := self._find_by_key(chat.created_by, key)) is not None:
            return first
        return None if self._stores.counters.find(chat.chat_id) is None else chat.chat_id

    def _require_users(self, user_ids: Sequence[UserId], draft: ChatDraft) -> None:
        unknown = set(user_ids) - self._users.find_public_users(user_ids).keys()
        if unknown:
            indexes = [index for index, user_id in enumerate(draft.member_ids) if user_id in unknown]
            raise Invalid(
                "Some of the members do not exist",
                fields={f"members.{index}": ["There is no such user."] for index in indexes},
            )

    def _new_chat(self, creator_id: UserId, draft: ChatDraft) -> Chat:
        now = self._clock.now()
        return Chat(
            chat_id=self._ids.chat(),
            type=draft.type,
            name=draft.name,
            created_by=creator_id,
            created_at=now,
            updated_at=now,
        )

    def _published(self, chat: Chat, members: Sequence[Membership]) -> Creation:
        self._events.chat_created(chat, [membership.user_id for membership in members])
        return Creation(ChatState(chat, last_sequence=0), is_new=True)

    def _existing(self, chat_id: ChatId, user_id: UserId) -> Creation:
        """Raises `ChatNotFound` if the user has left the group since."""
        chat = self._access.require_member(chat_id, user_id).chat
        return Creation(ChatState(chat, last_sequence=self._stores.counters.find(chat_id) or 0), is_new=False)


def _membership(chat: Chat, user_id: UserId, role: Role) -> Membership:
    return Membership(chat_id=chat.chat_id, user_id=user_id, role=role, joined_at=chat.created_at)
