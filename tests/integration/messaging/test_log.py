"""The chat's log: edits, deletions, reactions and pins are entries that change messages."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from chats.domain import ChatType, Command, CommandType, CounterState, Role
from chats.errors import AlreadyAMember, ChatNotFound, MemberNotFound, NothingToChange, RoleTooLow
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import StoreUnavailable, TransactionConflict
from messaging.domain import MAX_EMOJI, MAX_REACTIONS, Action, Draft, Kind, Message, Sent
from messaging.errors import (
    ClientMessageIdConflict,
    InvalidDraft,
    MessageDeleted,
    MessageNotFound,
    NotYourMessage,
    TooManyReactions,
)
from messaging.models import MessageModel
from messaging.services.fold import MAX_PINS
from messaging.services.history import Window
from messaging.services.queues import FULL_BATCH
from messaging.stores.messages import item_of
from tests.doubles import eventually
from tests.integration.messaging.services import Call, Services, cancelled

THUMB, HEART = "👍", "❤️"


async def submit_at_once(services: Services, drafts: Iterable[Draft]) -> list[Sent | BaseException]:
    return await asyncio.gather(*map(services.committer.submit, drafts), return_exceptions=True)


class Room:
    """A group of an owner, an admin and two members, whose first message is Mia's."""

    def __init__(self, services: Services, type: ChatType = ChatType.GROUP) -> None:
        self.services = services
        roles = {"owner": Role.OWNER, "admin": Role.ADMIN, "mia": Role.MEMBER, "max": Role.MEMBER}
        if type is ChatType.DIRECT:
            roles = {"mia": Role.MEMBER, "max": Role.MEMBER}
        self.chat_id, self.people = services.create_room(type, **roles)
        self.first = self.say("mia", "hello").message

    def draft(self, who: str, kind: Kind, client_message_id: str = "", **fields: Any) -> Draft:
        return Draft(self.chat_id, self.people[who], client_message_id, kind=kind, **fields)

    def say(self, who: str, content: str, client_message_id: str | None = None, **fields: Any) -> Sent:
        key = client_message_id or f"{who}-{content}".replace(" ", "-")
        return self.services.send(self.draft(who, Kind.MESSAGE, key, content=content, **fields))

    def edit(self, who: str, content: str, target: int = 1, key: str | None = None, **fields: Any) -> Sent:
        return self.services.send(
            self.draft(
                who, Kind.EDIT, key or f"edit-{abs(hash((who, content)))}", content=content, target=target, **fields
            )
        )

    def delete(self, who: str, target: int = 1, key: str = "") -> Sent:
        return self.services.send(self.draft(who, Kind.DELETION, key, target=target))

    def react(self, who: str, emoji: str = THUMB, action: Action = Action.ADD, target: int = 1, key: str = "") -> Sent:
        return self.services.send(self.draft(who, Kind.REACTION, key, target=target, emoji=emoji, action=action))

    def pin(self, who: str, target: int = 1, action: Action = Action.ADD) -> Sent:
        return self.services.send(self.draft(who, Kind.PIN, target=target, action=action))

    def command(self, who: str, type: CommandType, **fields: Any) -> Sent:
        return self.services.send(self.draft(who, Kind.NOTICE, command=Command(type, **fields)))

    def at(self, sequence: int, who: str = "mia") -> Message:
        return self.services.get_message(self.chat_id, self.people[who], sequence)

    def log(self, who: str = "mia") -> list[Message]:
        return list(self.services.page(self.chat_id, self.people[who], Window(after=0)).messages)

    def pins(self, who: str = "mia") -> list[int]:
        listing = self.services.annotations.list_pins(self.chat_id, self.people[who])
        return [message.sequence for message in self.services.run(listing)]


@pytest.fixture
def room(services: Services) -> Room:
    return Room(services)


class TestEdits:
    def test_an_edit_is_an_entry_and_changes_its_message(self, room: Room) -> None:
        edited = room.edit("mia", "hello, all", mentions=(room.people["max"],))
        assert (edited.message.sequence, edited.message.kind, edited.duplicate) == (2, Kind.EDIT, False)
        message = room.at(1)
        assert (message.content, message.mentions) == ("hello, all", (room.people["max"],))
        assert (message.edited_at, message.last_change) == (edited.message.created_at, 2)
        assert room.services.counter(room.chat_id) == CounterState(2, others=1, last_other=2, last_message=1, members=4)

    def test_a_stored_edit_has_no_text_and_is_shown_with_that_of_its_target(self, room: Room) -> None:
        room.edit("mia", "second")
        room.edit("mia", "third", mentions=(room.people["max"],))
        assert [entry.content for entry in room.services.stored(room.chat_id)] == ["third", "", ""]
        assert [entry.content for entry in room.log()] == ["third", "third", "third"]
        assert room.log()[2].mentions == (room.people["max"],)
        assert room.at(2).content == "third"
        later = room.services.page(room.chat_id, room.people["mia"], Window(after=1)).messages
        assert [entry.content for entry in later] == ["third", "third"], "the target is outside the page"

    def test_staff_deletes_a_message_of_somebody_who_is_gone(self, room: Room) -> None:
        room.say("mia", "again")
        room.command("mia", CommandType.REMOVE, user_id=room.people["mia"])
        by_staff = room.draft("mia", Kind.DELETION, target=2, by_staff=True)
        sent = [room.services.send(by_staff) for _ in range(2)]
        assert [each.duplicate for each in sent] == [False, True]
        assert (room.at(2, "max").content, sent[0].message.sender_id) == ("", room.people["mia"])
        with pytest.raises(ChatNotFound):
            room.delete("mia")
        with pytest.raises(ChatNotFound):
            room.services.send(replace(by_staff, chat_id=ChatId(room.services.ids.chat())))

    @pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.DELETION])
    def test_staff_does_nothing_else_in_somebodys_name(self, room: Room, kind: Kind) -> None:
        with pytest.raises(InvalidDraft):
            room.services.send(room.draft("mia", kind, "key", content="hello", target=1, by_staff=True))

    def test_a_deleted_text_is_nowhere(self, room: Room) -> None:
        room.edit("mia", "secret")
        room.delete("mia")
        assert "secret" not in repr([item_of(entry) for entry in room.services.stored(room.chat_id)])
        assert [entry.content for entry in room.log()] == ["", "", ""]

    def test_the_event_of_an_edit_has_its_text(self, room: Room) -> None:
        room.edit("mia", "new")
        event = room.services.fake_producer.events[-1]
        assert (event.event_type, event.topic) == ("EntryPersisted", "messages.persisted")
        assert (event.payload["kind"], event.payload["target"], event.payload["content"]) == ("edit", 1, "new")
        assert room.services.fake_producer.events[0].event_type == "MessagePersisted"


class TestDeletions:
    def test_a_deletion_removes_text_mentions_and_reactions_and_keeps_the_place(self, room: Room) -> None:
        room.edit("mia", "new", mentions=(room.people["max"],))
        room.react("max")
        deleted = room.delete("mia")
        message = room.at(1)
        assert (message.content, message.mentions, message.reactions) == ("", (), None)
        assert (message.deleted_at, message.last_change) == (deleted.message.created_at, deleted.message.sequence)
        assert message.sender_id == room.people["mia"]

    def test_deleting_again_answers_the_first_deletion(self, room: Room) -> None:
        first = room.delete("mia")
        for who in ("mia", "owner", "admin"):
            assert room.delete(who) == replace(first, duplicate=True)
        assert len(room.log()) == 2

    def test_two_deletions_at_once_are_one(self, room: Room) -> None:
        answers = [room.services.submit(room.draft("mia", Kind.DELETION, target=1)) for _ in range(5)]
        sent = [answer.result(20) for answer in answers]
        assert {each.message.sequence for each in sent} == {2}
        assert sorted(each.duplicate for each in sent) == [False, True, True, True, True]

    @pytest.mark.parametrize(
        "change",
        [
            lambda room: room.edit("mia", "again"),
            lambda room: room.react("max"),
            lambda room: room.react("max", action=Action.REMOVE),
            lambda room: room.pin("owner"),
        ],
        ids=["edit", "react", "take back", "pin"],
    )
    def test_a_deleted_message_does_not_change_any_more(self, room: Room, change: Callable[[Room], Sent]) -> None:
        room.delete("mia")
        with pytest.raises(MessageDeleted):
            change(room)
        assert len(room.log()) == 2

    def test_a_deletion_that_races_an_edit_wins_in_every_order(self, room: Room, other_process: Services) -> None:
        for number in range(6):
            target = room.say("mia", f"text-{number}").message.sequence
            edit = room.draft("mia", Kind.EDIT, f"race-{number}", content="edited", target=target)
            deletion = room.draft("owner", Kind.DELETION, target=target)
            first, second = (room.services, other_process) if number % 2 else (other_process, room.services)
            edited, deleted = first.submit(edit), second.submit(deletion)
            assert not deleted.result(20).duplicate
            assert isinstance(edited.exception(20), (MessageDeleted, type(None)))
            assert (room.at(target).content, room.at(target).deleted_at is None) == ("", False)
        stored = room.services.stored(room.chat_id)
        assert [entry.sequence for entry in stored] == list(range(1, len(stored) + 1))


class TestReactions:
    def test_a_reaction_is_added_once_and_taken_back_once(self, room: Room) -> None:
        assert room.react("max").message.sequence == 2
        again = room.react("max")
        assert (again.unchanged, again.duplicate, again.message) == (True, True, room.at(1))
        room.react("mia")
        room.react("max", HEART)
        assert room.at(1).reactions == {
            THUMB: frozenset((room.people["max"], room.people["mia"])),
            HEART: frozenset((room.people["max"],)),
        }
        room.react("max", HEART, Action.REMOVE)
        assert room.react("max", HEART, Action.REMOVE).unchanged
        assert room.at(1).to_json()["reactions"] == [
            {"emoji": THUMB, "count": 2, "user_ids": sorted([room.people["max"], room.people["mia"]])}
        ]
        assert [entry.kind for entry in room.log()[1:]] == [Kind.REACTION] * 4

    def test_49_reactions_to_one_message_are_one_transaction(self, room: Room, services: Services) -> None:
        people = [services.ids.user() for _ in range(48)]
        for each in people:
            services.add(room.chat_id, each)
        reaction = room.draft("mia", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD)
        warm = services.submit(room.draft("mia", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD))
        warm.result(20)
        services.wire.requests.clear()
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(room.draft("max", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD))
            assert arrived.wait(10)
            answers = [services.submit(replace(reaction, sender_id=each)) for each in people]
        for answer in (opening, *answers):
            answer.result(20)
        written = [len(request["TransactItems"]) for name, request in services.wire.requests if "Write" in name]
        assert written == [4, 98], "a counter and one update, with two items for each reaction"
        assert len((room.at(1).reactions or {})[THUMB]) == 50

    def test_a_storm_of_a_thousand_members_is_stored_in_few_transactions(self, room: Room) -> None:
        """Of 1,001 who react at once, the last is told that there are too many; every other reaction is there."""
        services = room.services
        people = [services.ids.user() for _ in range(MAX_REACTIONS + 1)]
        for each in people:
            services.add(room.chat_id, each)
        services.wire.requests.clear()
        drafts = [
            Draft(room.chat_id, each, "", kind=Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD)
            for each in people
        ]
        with services.wire.held("BatchGetItem") as arrived:
            first = services.submit(drafts[0])
            assert arrived.wait(10)
            others = [services.submit(draft) for draft in drafts[1:]]
        outcomes = [answer.exception(60) for answer in (first, *others)]
        assert [type(error) for error in outcomes if error is not None] == [TooManyReactions]
        stored = room.at(1).reactions
        assert stored is not None
        assert len(stored[THUMB]) == MAX_REACTIONS
        assert services.counter(room.chat_id).sequence == 1 + MAX_REACTIONS
        assert services.wire.operations.count("TransactWriteItems") <= MAX_REACTIONS / 20

    def test_reactions_of_many_in_two_processes_are_all_there(self, room: Room, other_process: Services) -> None:
        services = room.services
        people = [services.ids.user() for _ in range(30)]
        for each in people:
            services.add(room.chat_id, each)
        answers = [
            process.submit(Draft(room.chat_id, each, "", kind=Kind.REACTION, target=1, emoji=emoji, action=Action.ADD))
            for each in people
            for process, emoji in ((services, THUMB), (other_process, HEART))
        ]
        for answer in answers:
            assert not answer.result(20).unchanged
        assert room.at(1).reactions == {THUMB: frozenset(people), HEART: frozenset(people)}
        assert len(room.log()) == 61

    def test_a_message_has_20_emoji_at_most(self, room: Room) -> None:
        for number in range(MAX_EMOJI):
            room.react("max", chr(0x1F600 + number))
        with pytest.raises(TooManyReactions):
            room.react("max", THUMB)
        assert not room.react("mia", chr(0x1F600)).unchanged, "an emoji that is there already"
        room.react("max", chr(0x1F601), Action.REMOVE)
        assert not room.react("max", THUMB).unchanged

    def test_a_message_has_1000_reactions_at_most(self, room: Room, services: Services) -> None:
        crowd = frozenset(services.ids.user() for _ in range(MAX_REACTIONS))
        full = replace(room.first, reactions={THUMB: crowd}, last_change=1)
        services.database.transact([services.messages.changing(room.first, full)])
        with pytest.raises(TooManyReactions):
            room.react("max", HEART)
        page = services.page(room.chat_id, room.people["mia"], Window()).messages
        assert page[0].to_json()["reactions"][0]["count"] == MAX_REACTIONS
        assert len(page[0].to_json()["reactions"][0]["user_ids"]) == 20

    @pytest.mark.parametrize(
        "emoji", ["", "ab", "👍👍", " ", "\n", "\ud800", "a" + "\u0301" * 16, "\u200d", chr(0xFFFD)]
    )
    def test_an_emoji_is_one_grapheme_of_at_most_32_bytes(self, room: Room, emoji: str) -> None:
        with pytest.raises(InvalidDraft):
            room.react("max", emoji)

    @pytest.mark.parametrize("emoji", ["👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "❤️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
    def test_an_emoji_may_have_several_code_points(self, room: Room, emoji: str) -> None:
        room.react("max", emoji)
        assert room.at(1).reactions == {emoji: frozenset((room.people["max"],))}

    def test_who_reacted_is_listed_the_own_reactions_first(self, room: Room, services: Services) -> None:
        for who in ("owner", "admin", "mia", "max"):
            room.react(who)
        room.react("max", HEART)
        found: list[tuple[str, UserId]] = []
        cursor = None
        while True:
            page = services.run(
                services.annotations.list_reactions(room.chat_id, room.people["max"], 1, limit=2, cursor=cursor)
            )
            found += page.reactions
            cursor = page.next_cursor
            if cursor is None:
                break
        others = sorted(room.people[who] for who in ("owner", "admin", "mia"))
        assert found == [(HEART, room.people["max"]), (THUMB, room.people["max"]), *((THUMB, each) for each in others)]


class TestPins:
    def test_the_newest_pin_is_first(self, room: Room) -> None:
        for number in range(2):
            room.say("mia", f"text-{number}")
        assert room.pin("owner", 1).message.sequence == 4
        room.pin("admin", 3)
        assert room.pin("owner", 3).unchanged
        assert room.pins() == [3, 1]
        room.pin("admin", 1, Action.REMOVE)
        assert room.pin("admin", 1, Action.REMOVE).unchanged
        assert room.pins() == [3]
        assert room.at(3).last_change is None, "a pin does not change its message"

    def test_deleted_messages_are_left_out_and_can_be_unpinned(self, room: Room) -> None:
        room.pin("owner", 1)
        room.delete("mia")
        assert room.pins() == []
        assert not room.pin("owner", 1, Action.REMOVE).unchanged

    def test_a_chat_keeps_50_pins(self, room: Room) -> None:
        for number in range(MAX_PINS + 1):
            room.pin("owner", room.say("mia", f"text-{number}").message.sequence)
        assert len(room.pins()) == MAX_PINS
        assert room.pins()[0] == 2 * (MAX_PINS + 1)

    def test_pins_of_two_processes_are_all_there(self, room: Room, other_process: Services) -> None:
        targets = [room.say("mia", f"text-{number}").message.sequence for number in range(10)]
        answers = [
            (room.services, other_process)[number % 2].submit(
                room.draft("owner", Kind.PIN, target=target, action=Action.ADD)
            )
            for number, target in enumerate(targets)
        ]
        for answer in answers:
            answer.result(20)
        assert sorted(room.pins()) == targets


CHANGES: dict[str, Callable[[Room, str], Sent]] = {
    "edit": lambda room, who: room.edit(who, f"by {who}"),
    "delete": lambda room, who: room.delete(who),
    "react": lambda room, who: room.react(who),
    "pin": lambda room, who: room.pin(who),
}
ALLOWED = {
    ChatType.GROUP: {
        "edit": {"mia"},
        "delete": {"mia", "owner", "admin"},
        "react": {"mia", "max", "owner", "admin"},
        "pin": {"owner", "admin"},
    },
    ChatType.DIRECT: {"edit": {"mia"}, "delete": {"mia"}, "react": {"mia", "max"}, "pin": {"mia", "max"}},
}


@pytest.mark.parametrize("type", ChatType)
@pytest.mark.parametrize("change", CHANGES)
def test_who_may_change_a_message_of_mias(services: Services, type: ChatType, change: str) -> None:
    for who in ("owner", "admin", "mia", "max") if type is ChatType.GROUP else ("mia", "max"):
        room = Room(services, type)
        if who in ALLOWED[type][change]:
            assert CHANGES[change](room, who).message.sequence == 2
        else:
            with pytest.raises(NotYourMessage):
                CHANGES[change](room, who)
            assert len(room.log()) == 1


@pytest.mark.parametrize("change", CHANGES)
class TestTargets:
    def test_strangers_find_no_chat(self, room: Room, change: str) -> None:
        room.people["stranger"] = room.services.ids.user()
        with pytest.raises(ChatNotFound):
            CHANGES[change](room, "stranger")

    def test_what_is_no_message_is_not_found(self, room: Room, change: str) -> None:
        room.react("owner")
        by_target: dict[str, Callable[[int], Sent]] = {
            "edit": lambda target: room.edit("owner", "x", target),
            "delete": lambda target: room.delete("owner", target),
            "react": lambda target: room.react("owner", target=target),
            "pin": lambda target: room.pin("owner", target),
        }
        for target in (2, 3, 2**53 - 1):
            with pytest.raises(MessageNotFound):
                by_target[change](target)
        assert len(room.log()) == 2


class TestReplies:
    def test_a_reply_names_what_it_answers(self, room: Room) -> None:
        room.say("max", "indeed", reply_to=1, mentions=(room.people["mia"],))
        assert (room.at(2).reply_to, room.at(2).mentions) == (1, (room.people["mia"],))

    def test_what_is_not_there_cannot_be_answered(self, room: Room) -> None:
        with pytest.raises(MessageNotFound):
            room.say("max", "what?", reply_to=2)
        assert len(room.log()) == 1

    def test_what_another_process_has_just_stored_can_be_answered(self, room: Room, other_process: Services) -> None:
        for number in range(3):
            room.say("mia", f"warm-{number}")
        other_process.send(room.draft("max", Kind.MESSAGE, "theirs", content="theirs"))
        assert room.say("mia", "reply", reply_to=5).message.sequence == 6

    def test_more_than_50_mentions_are_too_many(self, room: Room) -> None:
        room.say("max", "fifty", mentions=(room.people["mia"],) * 50)
        with pytest.raises(InvalidDraft):
            room.say("max", "more", mentions=(room.people["mia"],) * 51)
        with pytest.raises(InvalidDraft):
            room.say("max", "nobody", mentions=(UserId("nobody"),))


class TestRetries:
    def test_a_retry_is_answered_also_when_the_message_has_been_edited_or_deleted(self, room: Room) -> None:
        room.edit("mia", "edited")
        again = room.say("mia", "hello")
        assert (again.duplicate, again.message.sequence, again.message.content) == (True, 1, "edited")
        room.delete("mia")
        again = room.say("mia", "hello")
        assert (again.duplicate, again.message.sequence, again.message.content) == (True, 1, "")
        edited = room.edit("mia", "edited")
        assert (edited.duplicate, edited.message.sequence) == (True, 2)

    def test_the_same_id_with_another_change_is_a_conflict(self, room: Room) -> None:
        room.edit("mia", "one", key="id")
        repetitions: list[Callable[[], Sent]] = [
            lambda: room.edit("mia", "two", key="id"),
            lambda: room.delete("mia", key="id"),
            lambda: room.say("mia", "one", "id"),
            lambda: room.edit("max", "one", key="id"),
        ]
        for repetition in repetitions:
            with pytest.raises(ClientMessageIdConflict):
                repetition()
        assert len(room.log()) == 2

    def test_a_reaction_with_an_id_is_stored_once_also_after_it_was_taken_back(self, room: Room) -> None:
        first = room.react("max", key="id")
        room.react("max", action=Action.REMOVE)
        again = room.react("max", key="id")
        assert (again.duplicate, again.message) == (True, first.message)
        assert room.at(1).reactions is None

    @pytest.mark.parametrize("key", ["", "id"])
    def test_a_lost_answer_is_found_again(self, room: Room, key: str) -> None:
        room.services.wire.fail("TransactWriteItems", [TransactionConflict("lost")], after_sending=True)
        sent = room.react("max", key=key)
        assert (sent.duplicate, sent.unchanged, sent.message.sequence) == (False, False, 2)
        assert len(room.log()) == 2

    def test_a_change_that_changed_nothing_is_not_made_behind_a_later_one_when_the_answer_is_lost(
        self, room: Room, services: Services
    ) -> None:
        services.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")], after_sending=True)
        drafts = [
            room.draft("max", Kind.REACTION, target=1, emoji=THUMB, action=action)
            for action in (Action.REMOVE, Action.ADD)
        ]
        removed, added = services.run(submit_at_once(services, drafts))
        assert isinstance(removed, StoreUnavailable), "nobody knows what became of it"
        assert isinstance(added, Sent)
        assert (added.message.sequence, len(room.log())) == (2, 2)
        assert room.at(1).reactions == {THUMB: frozenset((room.people["max"],))}

    def test_what_changes_nothing_is_answered_also_when_the_answer_was_lost(
        self, room: Room, services: Services
    ) -> None:
        services.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")], after_sending=True)
        adding = room.draft("max", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD)
        drafts = [
            adding,
            adding,
            room.draft("max", Kind.EDIT, "id", content="x", target=1),
            replace(adding, emoji=HEART),
        ]
        added, again, edited, loved = services.run(submit_at_once(services, drafts))
        assert isinstance(again, Sent)
        assert again.unchanged
        assert isinstance(edited, NotYourMessage)
        assert [each.message.sequence for each in (added, loved) if isinstance(each, Sent)] == [2, 3]

    def test_a_key_without_a_digest_is_compared_with_its_message(self, room: Room, services: Services) -> None:
        services.database.call(
            "UpdateItem",
            {
                "TableName": services.database.table_name(MessageModel).replace("messages", "idempotency_keys"),
                "Key": {"chat_id": {"S": room.chat_id}, "client_message_id": {"S": "mia-hello"}},
                "UpdateExpression": "REMOVE digest",
            },
        )
        assert room.say("mia", "hello").duplicate
        with pytest.raises(ClientMessageIdConflict):
            room.say("mia", "other", "mia-hello")


class TestContention:
    def test_an_edit_is_stored_after_a_conflict_of_another_chat_though_plain_messages_were_read_meanwhile(
        self, room: Room, services: Services
    ) -> None:
        """The edits of two chats are in one transaction, which the other chat makes fail."""
        other, strangers = Room(services), [services.ids.user() for _ in range(FULL_BATCH)]
        for each in strangers:
            services.add(room.chat_id, each)
        arrived, released = threading.Event(), asyncio.Event()

        async def fail(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            if name != "TransactWriteItems" or arrived.is_set():
                return await send(name, request)
            arrived.set()
            await released.wait()
            raise cancelled(
                *("TransactionConflict" if other.chat_id in str(each) else None for each in request["TransactItems"])
            )

        services.wire.intercept = fail
        edits = services.loop.submit(
            submit_at_once(
                services, [each.draft("mia", Kind.EDIT, "id", content="new", target=1) for each in (room, other)]
            )
        )
        assert arrived.wait(10)
        services.wire.requests.clear()
        later = [services.submit(services.draft(room.chat_id, each, each)) for each in strangers]
        eventually(lambda: len(services.committer._queues._queues[room.chat_id].verified) == FULL_BATCH)
        services.loop.call_soon(released.set)
        assert [each.message.sequence for each in edits.result(20) if isinstance(each, Sent)] == [2, 2]
        assert [answer.result(20).message.sequence for answer in later] == list(range(3, FULL_BATCH + 3))

    def test_a_target_that_another_process_changed_is_read_again(self, room: Room, other_process: Services) -> None:
        answers = [
            process.submit(room.draft("mia", Kind.EDIT, f"{name}-{number}", content=f"{name}-{number}", target=1))
            for number in range(20)
            for name, process in (("a", room.services), ("b", other_process))
        ]
        sent = [answer.result(20).message for answer in answers]
        assert room.at(1).last_change == 41
        assert room.at(1).content == next(each.content for each in sent if each.sequence == 41)

    def test_refused_drafts_leave_the_others_of_their_batch(self, room: Room, services: Services) -> None:
        drafts = [
            room.draft("max", Kind.EDIT, "no", content="no", target=1),
            room.draft("mia", Kind.MESSAGE, "m-1", content="one"),
            room.draft("mia", Kind.DELETION, target=1),
            room.draft("mia", Kind.EDIT, "late", content="late", target=1),
            room.draft("max", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD),
            room.draft("mia", Kind.MESSAGE, "m-2", content="two", reply_to=1),
        ]
        answers = [services.submit(draft) for draft in drafts]
        outcomes: list[object] = []
        for answer in answers:
            error = answer.exception(20)
            outcomes.append(answer.result().message.sequence if error is None else type(error))
        assert outcomes == [NotYourMessage, 2, 3, MessageDeleted, MessageDeleted, 4]
        assert [entry.others for entry in services.stored(room.chat_id)] == [0, 0, 1, 1]

    @pytest.mark.parametrize("number", range(5))
    def test_a_cancelled_transaction_decides_everything_anew(self, room: Room, number: int) -> None:
        codes = [None] * number + ["ConditionalCheckFailed"] + [None] * (4 - number - 1)
        room.services.wire.fail("TransactWriteItems", [cancelled(*codes[:4])] if number < 4 else [])
        assert room.react("max").message.sequence == 2
        assert room.at(1).reactions == {THUMB: frozenset((room.people["max"],))}


class TestCommands:
    def test_a_change_of_members_is_a_notice_in_the_same_transaction(self, room: Room, services: Services) -> None:
        newcomer = services.ids.user()
        added = room.command("owner", CommandType.ADD, user_id=newcomer)
        assert added.message.notice == {"type": "member_added", "user_ids": [newcomer], "roles": ["member"]}
        membership = services.memberships.find(room.chat_id, newcomer)
        assert membership is not None
        assert membership.joined_sequence == 2
        assert services.counter(room.chat_id).members == 5
        removed = room.command("admin", CommandType.REMOVE, user_id=newcomer)
        assert removed.message.notice == {"type": "member_removed", "user_ids": [newcomer], "roles": ["member"]}
        left = room.command("max", CommandType.REMOVE, user_id=room.people["max"])
        assert left.message.notice == {"type": "member_left", "user_ids": [room.people["max"]], "roles": ["member"]}
        counter = services.counter(room.chat_id)
        assert (counter.sequence, counter.others, counter.members, counter.departures) == (4, 3, 3, 2)

    def test_a_new_name_and_a_new_owner_are_notices(self, room: Room) -> None:
        renamed = room.command("admin", CommandType.RENAME, name="Crew")
        assert renamed.message.notice == {"type": "chat_renamed", "name": "Crew"}
        owner, mia = room.people["owner"], room.people["mia"]
        handed_over = room.command("owner", CommandType.CHANGE_ROLE, user_id=mia, role=Role.OWNER)
        assert handed_over.message.notice == {
            "type": "role_changed", "user_ids": [mia, owner], "roles": ["owner", "admin"],
        }  # fmt: skip
        assert [entry.kind for entry in room.log()] == [Kind.MESSAGE, Kind.NOTICE, Kind.NOTICE]

    @pytest.mark.parametrize(
        ("who", "type", "fields", "error"),
        [
            ("max", CommandType.RENAME, {"name": "x"}, RoleTooLow),
            ("owner", CommandType.ADD, {"user_id": "mia"}, AlreadyAMember),
            ("max", CommandType.ADD, {"user_id": "stranger"}, RoleTooLow),
            ("owner", CommandType.REMOVE, {"user_id": "stranger"}, MemberNotFound),
            ("owner", CommandType.CHANGE_ROLE, {"user_id": "max", "role": Role.MEMBER}, NothingToChange),
        ],
    )
    def test_what_is_refused_leaves_no_entry(
        self, room: Room, who: str, type: CommandType, fields: dict[str, Any], error: type[ParleyError]
    ) -> None:
        room.people["stranger"] = room.services.ids.user()
        if "user_id" in fields:
            fields = {**fields, "user_id": room.people[fields["user_id"]]}
        with pytest.raises(error):
            room.command(who, type, **fields)
        assert len(room.log()) == 1

    def test_a_pin_and_a_new_name_at_once_are_both_stored(self, room: Room, services: Services) -> None:
        drafts = [
            room.draft("owner", Kind.PIN, target=1, action=Action.ADD),
            room.draft("owner", Kind.NOTICE, command=Command(CommandType.RENAME, name="Crew")),
            room.draft("owner", Kind.PIN, target=1, action=Action.REMOVE),
        ]
        answers = [services.submit(draft) for draft in drafts]
        assert [answer.result(20).message.sequence for answer in answers] == [2, 3, 4]
        assert room.pins() == []

    def test_nothing_of_a_removed_member_is_stored_behind_the_notice(self, room: Room, services: Services) -> None:
        for number in range(3):
            room.say("max", f"warm-{number}")
        drafts = [
            room.draft("max", Kind.MESSAGE, "before", content="before"),
            room.draft("owner", Kind.NOTICE, command=Command(CommandType.REMOVE, room.people["max"])),
            room.draft("max", Kind.MESSAGE, "after", content="after"),
            room.draft("mia", Kind.MESSAGE, "mias", content="mias"),
            room.draft("max", Kind.REACTION, target=1, emoji=THUMB, action=Action.ADD),
        ]
        answers = [services.submit(draft) for draft in drafts]
        outcomes = [answer.exception(20) for answer in answers]
        assert [type(each) for each in outcomes] == [type(None), type(None), ChatNotFound, type(None), ChatNotFound]
        assert [entry.client_message_id for entry in services.stored(room.chat_id)][4:] == [
            "before", answers[1].result().message.client_message_id, "mias",
        ]  # fmt: skip

    def test_who_leaves_has_left_also_when_the_answer_is_lost(self, room: Room, services: Services) -> None:
        services.wire.fail("TransactWriteItems", [StoreUnavailable("lost")], after_sending=True)
        left = room.command("max", CommandType.REMOVE, user_id=room.people["max"])
        assert (left.message.sequence, left.duplicate) == (2, False)
        assert services.fake_producer.events[-1].payload["sequence"] == 2

    def test_while_kafka_is_away_a_change_of_members_is_answered_and_other_changes_are_not(
        self, room: Room, services: Services
    ) -> None:
        services.fake_producer.unavailable = True
        assert room.command("owner", CommandType.RENAME, name="Crew").message.sequence == 2
        with pytest.raises(ParleyError) as refused:
            room.react("max")
        assert refused.value.code == "fanout_unavailable"


def test_plain_messages_cost_the_same_beside_other_entries(room: Room, services: Services) -> None:
    """The same requests, items and write units: nothing is read, and the counter's update names nothing more."""
    room.react("max")
    for number in range(2):
        room.say("mia", f"warm-{number}")
    services.wire.requests.clear()
    room.say("mia", "plain")
    [(operation, request)] = services.wire.requests
    counter, key, message = request["TransactItems"]
    assert operation == "TransactWriteItems"
    assert counter["Update"]["UpdateExpression"] == "SET sequence_counter = :next, updated_at = :now"
    assert message["Put"]["Item"].keys() == {
        "chat_id", "sequence", "message_id", "sender_id", "client_message_id", "content", "content_type",
        "created_at", "others",
    }  # fmt: skip
    assert sum(len(name) + len(str(value)) for name, value in key["Put"]["Item"].items()) < 1024


def test_a_chat_without_other_entries_stores_what_it_always_did(services: Services, chat: ChatId, ann: UserId) -> None:
    services.send(services.draft(chat, ann))
    [stored] = services.stored(chat)
    assert item_of(stored).keys() == {name for name, each in MessageModel.get_attributes().items() if not each.null}


class TestALaterKind:
    """After a rollback a chat may have entries of a version that knew more kinds."""

    @pytest.fixture
    def room(self, services: Services) -> Room:
        room = Room(services)
        poll = replace(room.at(1), sequence=2, kind="poll", content="", action="close", others=1, target=1)
        counter = services.counter(room.chat_id)
        after = replace(counter, sequence=2, others=1, last_other=2, last_message=1)
        services.database.transact(
            [
                services.counters.moving(room.chat_id, current=counter, after=after, now=services.clock.now()),
                services.messages.storing(poll),
            ]
        )
        return room

    def test_it_is_read_as_it_is(self, room: Room) -> None:
        entry = room.log()[1].to_json()
        assert (entry["kind"], entry["action"], entry["sequence"]) == ("poll", "close", 2)

    def test_it_is_no_message_to_change(self, room: Room) -> None:
        with pytest.raises(MessageNotFound):
            room.react("max", target=2)

    def test_messages_go_on_behind_it(self, room: Room) -> None:
        assert room.say("max", "after it").message.sequence == 3
        assert [str(entry.kind) for entry in room.log()] == ["message", "poll", "message"]
