"""Seeds the demo's users, chats and messages through the services."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock

from accounts.domain import User
from accounts.services.login import Login
from accounts.services.registration import Registration
from accounts.services.sessions import Sessions
from accounts.services.suspension import Suspensions
from chats.domain import ChatDraft, ChatState, ChatType
from chats.services.creation import ChatCreation
from delivery.domain import Mark
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from demo.data import CHATS, PEOPLE, SUSPENDED, DemoChat
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from messaging.domain import Action, Draft, Kind
from messaging.services.committer import Committer

PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class DemoServices:
    """The services that the seeder calls."""

    registration: Registration
    sessions: Sessions
    suspensions: Suspensions
    creation: ChatCreation
    inbox: Inbox
    committer: Committer
    loop: ServiceLoop
    watermarks: Watermarks


class DemoSeeder:
    """Idempotent: creates only what is missing, also after an interrupted run."""

    def __init__(self, services: DemoServices) -> None:
        self._services = services
        self._lock = Lock()
        self._users: dict[str, User] = {}

    def seed(self) -> dict[str, User]:
        """Create the missing demo data and return the demo's users by name."""
        with self._lock:
            if not self._users:
                users = {name: self._register(name, number) for name, number in PEOPLE.items()}
                for demo_chat in CHATS:
                    self._seed_chat(demo_chat, users)
                self._suspend_somebody()
                self._users = users
            return self._users

    def log_in(self, name: str, *, device_id: str) -> Login:
        """Open a session for one of the demo's people. Raises `Invalid` for any other name."""
        user = self.seed().get(name)
        if user is None:
            raise Invalid("Nobody of that name is in the demo", fields={"name": ["Nobody of that name."]})
        tokens = self._services.sessions.open(user_id=user.user_id, device_id=device_id)
        return Login(user=user, is_new_user=False, tokens=tokens)

    def _register(self, name: str, number: str) -> User:
        user, _ = self._services.registration.find_or_create(number, display_name=name)
        return user

    def _suspend_somebody(self) -> None:
        """Once: whoever restores the account finds it restored."""
        name, number = SUSPENDED
        user, is_new = self._services.registration.find_or_create(number, display_name=name)
        if is_new:
            self._services.suspensions.suspend(user.user_id)

    def _seed_chat(self, demo_chat: DemoChat, users: Mapping[str, User]) -> None:
        state = self._find_or_create_chat(demo_chat, users)
        if state.last_sequence >= len(demo_chat.messages) + len(demo_chat.changes):
            return
        chat_id = state.chat.chat_id
        for draft in (*_messages(demo_chat, chat_id, users), *_changes(demo_chat, chat_id, users)):
            self._services.loop.run(self._services.committer.send(draft))
        for name, sequence in demo_chat.read.items():
            self._services.loop.run(self._services.watermarks.move(users[name].user_id, chat_id, Mark.READ, sequence))

    def _find_or_create_chat(self, demo_chat: DemoChat, users: Mapping[str, User]) -> ChatState:
        creator, *others = (users[name].user_id for name in demo_chat.members)
        if demo_chat.name is not None and (found := self._find_group(demo_chat.name, creator)) is not None:
            return found
        kind = ChatType.DIRECT if demo_chat.name is None else ChatType.GROUP
        draft = ChatDraft(type=kind, name=demo_chat.name, member_ids=tuple(others))
        return self._services.creation.create(creator, draft, key=f"demo-{demo_chat.key}").state

    def _find_group(self, name: str, creator_id: UserId) -> ChatState | None:
        """Search the creator's inbox: an idempotency key of chat creation expires after a day."""
        cursor: str | None = None
        while True:
            listing = self._services.inbox.list_chats(creator_id, limit=PAGE_SIZE, cursor=cursor)
            page = self._services.loop.run(listing)
            for entry in page.entries:
                chat = entry.listed.state.chat
                if chat.name == name and chat.created_by == creator_id:
                    return entry.listed.state
            if (cursor := page.next_cursor) is None:
                return None


def _messages(demo_chat: DemoChat, chat_id: ChatId, users: Mapping[str, User]) -> Iterator[Draft]:
    for index, (name, text) in enumerate(demo_chat.messages):
        yield Draft(
            chat_id,
            users[name].user_id,
            f"demo-{demo_chat.key}-{index}",
            text,
            reply_to=demo_chat.replies.get(index + 1),
            mentions=tuple(user.user_id for user in users.values() if f"@{user.display_name}" in text),
        )


def _changes(demo_chat: DemoChat, chat_id: ChatId, users: Mapping[str, User]) -> Iterator[Draft]:
    for index, change in enumerate(demo_chat.changes):
        has_action = change.kind in (Kind.REACTION, Kind.PIN)
        yield Draft(
            chat_id,
            users[change.person].user_id,
            f"demo-{demo_chat.key}-change-{index}",
            change.text,
            kind=change.kind,
            target=change.target,
            emoji=change.emoji,
            action=Action.ADD if has_action else None,
        )
