"""Plays the demo's script through the services, as its people would have done it."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from accounts.domain import User
from accounts.services.login import Login
from accounts.services.registration import Registration
from accounts.services.sessions import Sessions
from chats.domain import ChatDraft, ChatState, ChatType
from chats.services.creation import ChatCreation
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from demo.script import PEOPLE, SCENES, Scene
from foundation.kernel.errors import Invalid
from messaging.domain import Draft
from messaging.services.committer import Committer

PAGE = 200


@dataclass(frozen=True, slots=True)
class Company:
    """The services that the demo's people use."""

    registration: Registration
    sessions: Sessions
    creation: ChatCreation
    inbox: Inbox
    committer: Committer
    watermarks: Watermarks


class Stage:
    """May be set again and again, also after a run that broke off: what is there is left as it is."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._lock = Lock()
        self._cast: dict[str, User] = {}

    def set(self) -> dict[str, User]:
        """Make what is missing of the script, and return its people by name."""
        with self._lock:
            if not self._cast:
                cast = {name: self._enrol(name, number) for name, number in PEOPLE.items()}
                for scene in SCENES:
                    self._play(scene, cast)
                self._cast = cast
            return self._cast

    def log_in(self, name: str, *, device_id: str) -> Login:
        """Be one of the script's people. Raises `Invalid` for any other name."""
        user = self.set().get(name)
        if user is None:
            raise Invalid("Nobody of that name is in the demo", fields={"name": ["Nobody of that name."]})
        tokens = self._company.sessions.open(user_id=user.user_id, device_id=device_id)
        return Login(user=user, is_new_user=False, tokens=tokens)

    def _enrol(self, name: str, number: str) -> User:
        user, _ = self._company.registration.find_or_create(number, display_name=name)
        return user

    def _play(self, scene: Scene, cast: Mapping[str, User]) -> None:
        chat = self._open(scene, cast)
        if chat.last_sequence >= len(scene.lines):
            return
        chat_id = chat.chat.chat_id
        for place, (name, text) in enumerate(scene.lines):
            sender = cast[name].user_id
            self._company.committer.send(Draft(chat_id, sender, f"demo-{scene.key}-{place}", text))
        for name, sequence in scene.read.items():
            self._company.watermarks.acknowledge(cast[name].user_id, chat_id, sequence)

    def _open(self, scene: Scene, cast: Mapping[str, User]) -> ChatState:
        creator, *others = (cast[name].user_id for name in scene.members)
        if scene.name is not None and (known := self._find_group(scene.name, cast[scene.members[0]])) is not None:
            return known
        kind = ChatType.DIRECT if scene.name is None else ChatType.GROUP
        draft = ChatDraft(type=kind, name=scene.name, member_ids=tuple(others))
        return self._company.creation.create(creator, draft, key=f"demo-{scene.key}").state

    def _find_group(self, name: str, creator: User) -> ChatState | None:
        """The creator's group of that name: creation remembers its keys for a day only, the demo lasts longer."""
        cursor: str | None = None
        while True:
            page = self._company.inbox.list_chats(creator.user_id, limit=PAGE, cursor=cursor)
            for entry in page.entries:
                chat = entry.listed.state.chat
                if chat.name == name and chat.created_by == creator.user_id:
                    return entry.listed.state
            if (cursor := page.next_cursor) is None:
                return None
