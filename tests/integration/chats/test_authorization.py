"""Role × route × own or foreign chat: the rights, in one table."""

from collections.abc import Callable

import pytest

from foundation.kernel.ids import ChatId
from tests.integration.chats.services import Answer, Person, Services

OK, NO, GONE = 200, 403, 404
ROLES = ("owner", "admin", "member", "outsider")


class Group:
    """A group with everyone a request may come from or be aimed at."""

    def __init__(self, services: Services) -> None:
        self.people = {role: services.user(role) for role in ROLES}
        self.second_admin, self.second_member, self.newcomer = services.user(), services.user(), services.user()
        owner = self.people["owner"]
        others = (self.people["admin"], self.people["member"], self.second_admin, self.second_member)
        self.chat_id = ChatId(owner.create_group(*others).body["chat_id"])
        for admin in (self.people["admin"], self.second_admin):
            owner.give_role(self.chat_id, admin, "admin")
        services.say(self.chat_id, owner.user_id, "Welcome")


Attempt = Callable[[Group, Person, str], Answer]

ROUTES: dict[str, tuple[Attempt, tuple[int, int, int]]] = {
    "read": (lambda g, p, c: p.get(f"/api/chats/{c}"), (OK, OK, OK)),
    "rename": (lambda g, p, c: p.patch(f"/api/chats/{c}", {"name": "New"}), (OK, OK, NO)),
    "mute": (lambda g, p, c: p.put(f"/api/chats/{c}/mute", {"muted_until": None}), (OK, OK, OK)),
    "list members": (lambda g, p, c: p.get(f"/api/chats/{c}/members"), (OK, OK, OK)),
    "add a member": (lambda g, p, c: p.add(c, g.newcomer), (OK, OK, NO)),
    "add an admin": (lambda g, p, c: p.add(c, g.newcomer, role="admin"), (OK, NO, NO)),
    "remove a member": (lambda g, p, c: p.remove(c, g.second_member), (204, 204, NO)),
    "remove an admin": (lambda g, p, c: p.remove(c, g.second_admin), (204, NO, NO)),
    "remove by action": (
        lambda g, p, c: p.post(f"/api/chats/{c}/members", {"user_id": g.second_member.user_id, "action": "remove"}),
        (OK, OK, NO),
    ),
    "appoint": (lambda g, p, c: p.give_role(c, g.second_member, "admin"), (OK, NO, NO)),
    "dismiss": (lambda g, p, c: p.give_role(c, g.second_admin, "member"), (OK, NO, NO)),
    "hand over": (lambda g, p, c: p.give_role(c, g.second_member, "owner"), (OK, NO, NO)),
    "send": (
        lambda g, p, c: p.post(f"/api/chats/{c}/messages", {"client_message_id": p.user_id, "content": "Hi"}),
        (201, 201, 201),
    ),
    "read the history": (lambda g, p, c: p.get(f"/api/chats/{c}/messages"), (OK, OK, OK)),
    "read a message": (lambda g, p, c: p.get(f"/api/chats/{c}/messages/1"), (OK, OK, OK)),
    "acknowledge": (lambda g, p, c: p.post(f"/api/chats/{c}/ack", {"sequence": 1}), (OK, OK, OK)),
    "leave": (lambda g, p, c: p.remove(c, p), (409, 204, 204)),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", ROUTES)
def test_in_their_own_chat(services: Services, route: str, role: str) -> None:
    group = Group(services)
    attempt, (owner, admin, member) = ROUTES[route]
    expected = {"owner": owner, "admin": admin, "member": member, "outsider": GONE}[role]
    answer = attempt(group, group.people[role], group.chat_id)
    assert answer.status == expected
    if expected == NO:
        assert answer.code == "forbidden"
    if expected == GONE:
        assert answer.code == "chat_not_found"


@pytest.mark.parametrize("route", ROUTES)
def test_in_a_foreign_chat_and_in_one_that_does_not_exist(services: Services, route: str) -> None:
    """A foreign group, a foreign direct chat, no chat and no id: the answers are the same to the letter."""
    group, attempt = Group(services), ROUTES[route][0]
    one, other = services.user(), services.user()
    foreign = [one.create_group(other).body["chat_id"], one.create_direct(other).body["chat_id"]]
    for role in ROLES:
        answers = [
            attempt(group, group.people[role], chat_id)
            for chat_id in (*foreign, services.ids.chat(), "chat_1", "nonsense")
        ]
        assert {answer.code for answer in answers} == {"chat_not_found"}
        assert all(answer.body == answers[0].body for answer in answers)


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_token(services: Services, route: str) -> None:
    group, attempt = Group(services), ROUTES[route][0]

    class Unauthenticated(Person):
        def call(self, *args: object, **options: object) -> Answer:
            options["headers"] = {"Authorization": ""}
            return super().call(*args, **options)  # type: ignore[arg-type]

    answer = attempt(group, Unauthenticated(group.people["owner"].user_id), group.chat_id)
    assert (answer.status, answer.code) == (401, "authentication_required")
