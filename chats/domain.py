"""The values of chats, and the rights of each role."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from foundation.kernel.clock import to_iso
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, UserId

MAX_MEMBERS = 1000
MAX_NAME_LENGTH = 100


class ChatType(StrEnum):
    DIRECT = "direct"
    GROUP = "group"


class Role(StrEnum):
    """A group always has exactly one owner. In a direct chat, both users are plain members."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"

    @property
    def may_manage(self) -> bool:
        """Whether the role may add and remove plain members and rename the group."""
        return self is not Role.MEMBER

    def may_remove(self, other: "Role") -> bool:
        """The owner may remove everyone else, an admin only plain members."""
        return other is not Role.OWNER if self is Role.OWNER else self is Role.ADMIN and other is Role.MEMBER


@dataclass(frozen=True, slots=True)
class Chat:
    chat_id: ChatId
    type: ChatType
    name: str | None
    created_by: UserId
    created_at: datetime
    updated_at: datetime
    pins: tuple[int, ...] = ()

    @property
    def is_direct(self) -> bool:
        return self.type is ChatType.DIRECT


@dataclass(frozen=True, slots=True)
class ChatState:
    """A chat and its latest sequence."""

    chat: Chat
    last_sequence: int

    def to_json(self) -> dict[str, Any]:
        return {
            "chat_id": self.chat.chat_id,
            "type": str(self.chat.type),
            "name": self.chat.name,
            "created_by": self.chat.created_by,
            "created_at": to_iso(self.chat.created_at),
            "updated_at": to_iso(self.chat.updated_at),
            "last_sequence": self.last_sequence,
        }


@dataclass(frozen=True, slots=True)
class ChatDraft:
    """The request to create a chat."""

    type: ChatType
    name: str | None
    member_ids: tuple[UserId, ...]

    def others(self, creator_id: UserId) -> list[UserId]:
        """The members without the creator, who may be listed or not. Raises `Invalid`."""
        problems = self._name_problems() | self._member_problems(creator_id)
        if problems:
            raise Invalid("This chat cannot be created", fields=problems)
        return [user_id for user_id in self.member_ids if user_id != creator_id]

    def _name_problems(self) -> dict[str, list[str]]:
        if self.type is ChatType.DIRECT:
            return {} if self.name is None else {"name": ["A direct chat has no name."]}
        return {"name": ["A group needs a name."]} if self.name is None else {}

    def _member_problems(self, creator_id: UserId) -> dict[str, list[str]]:
        first_index = {user_id: index for index, user_id in reversed(list(enumerate(self.member_ids)))}
        repeated = [index for index, user_id in enumerate(self.member_ids) if first_index[user_id] != index]
        if repeated:
            return {f"members.{index}": ["This user is named twice."] for index in repeated}
        others = len(first_index.keys() - {creator_id})
        if self.type is ChatType.GROUP:
            full = others + 1 > MAX_MEMBERS
            return {"members": [f"A group has at most {MAX_MEMBERS:,} members, you included."]} if full else {}
        if others == 0:
            return {"members": ["A direct chat needs another user than yourself."]}
        return {} if others == 1 else {"members": ["A direct chat has exactly one other member."]}


@dataclass(frozen=True, slots=True)
class Creation:
    """The result of creating a chat: a new chat or the existing one."""

    state: ChatState
    is_new: bool


@dataclass(frozen=True, slots=True)
class Membership:
    """A user's membership in a chat, as stored."""

    chat_id: ChatId
    user_id: UserId
    role: Role
    joined_at: datetime
    muted_until: datetime | None = None
    joined_sequence: int = 0


@dataclass(frozen=True, slots=True)
class ChatAccess:
    """A chat, and the membership that gives a user access to it."""

    chat: Chat
    membership: Membership

    @property
    def role(self) -> Role:
        return self.membership.role


@dataclass(frozen=True, slots=True)
class ListedChat:
    """An entry of a user's list of chats."""

    state: ChatState
    membership: Membership
    counter: "CounterState"

    def to_json(self) -> dict[str, Any]:
        muted = self.membership.muted_until
        return {
            **self.state.to_json(),
            "role": str(self.membership.role),
            "muted_until": None if muted is None else to_iso(muted),
        }


@dataclass(frozen=True, slots=True)
class Member:
    """A membership and the user's display name."""

    membership: Membership
    display_name: str

    def to_json(self) -> dict[str, Any]:
        return {
            "user_id": self.membership.user_id,
            "display_name": self.display_name,
            "role": str(self.membership.role),
            "joined_at": to_iso(self.membership.joined_at),
        }


@dataclass(frozen=True, slots=True)
class CounterState:
    """A chat's counter: the latest sequence, and what is counted with it (`chats.models.CounterModel`).

    `members` is None in a chat that is older than this count.
    """

    sequence: int
    departures: int = 0
    others: int = 0
    last_other: int = 0
    last_message: int = 0
    members: int | None = None

    @property
    def latest_message(self) -> int:
        """The sequence of the last message, 0 if there is none. Right also where an older process wrote messages."""
        return self.last_message if self.last_other == self.sequence else self.sequence

    @property
    def messages(self) -> int:
        """How many entries are messages."""
        return self.sequence - self.others


class CommandType(StrEnum):
    RENAME = "rename"
    ADD = "add"
    REMOVE = "remove"
    CHANGE_ROLE = "change_role"


@dataclass(frozen=True, slots=True)
class Command:
    """A change of a chat's name or members, by name: whoever stores it judges it on the chat as it then is."""

    type: CommandType
    user_id: UserId | None = None
    role: Role | None = None
    name: str | None = None

    def to_json(self) -> dict[str, str | None]:
        return {"type": self.type, "user_id": self.user_id, "role": self.role, "name": self.name}
