from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, cast, get_args, get_type_hints

import orjson
import pytest

from chats.domain import Command, CommandType, Role
from chats.errors import ChatNotFound
from foundation.kernel.errors import Invalid, Malformed, Overloaded, ParleyError, catalogue
from foundation.kernel.ids import ChatId, ConnectionId, MessageId, UserId
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from messaging.domain import Action, Draft, Kind, Message, Sent
from messaging.errors import InvalidDraft
from messaging.services import codec
from messaging.services.codec import UnknownForm, answer_from_wire, answer_to_wire, draft_from_wire, draft_to_wire
from messaging.services.committer import Committer

DRAFT = Draft(ChatId("chat"), UserId("ann"), "id-1", "hello \x01 ñ 🙂", origin=ConnectionId("gw-1.conn_1"))
MESSAGE = Message(MessageId("msg"), ChatId("chat"), 7, UserId("ann"), "id-1", "hello", "text/plain", "2035-01-30")


def travelled(value: object) -> Any:
    return orjson.loads(orjson.dumps(value))


class TestDrafts:
    def test_a_draft_arrives_as_it_was(self) -> None:
        assert draft_from_wire(travelled(draft_to_wire(DRAFT))) == DRAFT

    @pytest.mark.parametrize(
        "fields",
        [
            {"kind": Kind.EDIT, "target": 3, "mentions": (UserId("ann"), UserId("bob"))},
            {"kind": Kind.DELETION, "target": 3, "by_staff": True},
            {"kind": Kind.REACTION, "target": 3, "emoji": "👍", "action": Action.ADD},
            {"kind": Kind.NOTICE, "command": Command(CommandType.ADD, UserId("bob"), Role.ADMIN)},
        ],
        ids=lambda fields: str(fields["kind"]),
    )
    def test_drafts_of_every_kind_arrive_as_they_were(self, fields: dict[str, Any]) -> None:
        draft = replace(DRAFT, **fields)
        arrived = draft_from_wire(travelled(draft_to_wire(draft)))
        assert arrived == draft
        assert arrived.kind is draft.kind
        assert arrived.digest == draft.digest

    def test_a_kind_that_this_version_does_not_know_is_refused(self) -> None:
        with pytest.raises(UnknownForm):
            draft_from_wire({**travelled(draft_to_wire(DRAFT)), "kind": "newer"})

    def test_defaults_do_not_travel(self) -> None:
        """So a process that does not know a new field reads the drafts that do not use it."""
        plain = Draft(ChatId("chat"), UserId("ann"), "id-1", "hello")
        assert draft_to_wire(plain).keys() == {"chat_id", "sender_id", "client_message_id", "content"}

    @pytest.mark.parametrize(
        "change",
        [{"unknown": 1}, {"content": 5}, {"content": None}, {"origin": 7}, {"content_type": ["text/plain"]}],
    )
    def test_a_draft_that_this_version_does_not_know_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(UnknownForm):
            draft_from_wire({**travelled(draft_to_wire(DRAFT)), **change})

    @pytest.mark.parametrize("missing", ["chat_id", "sender_id", "client_message_id"])
    def test_a_draft_without_a_field_is_refused(self, missing: str) -> None:
        wire = travelled(draft_to_wire(DRAFT))
        del wire[missing]
        with pytest.raises(UnknownForm):
            draft_from_wire(wire)

    @pytest.mark.parametrize("value", [None, [], "draft", 5, {}])
    def test_what_is_no_draft_is_refused(self, value: object) -> None:
        with pytest.raises(UnknownForm):
            draft_from_wire(value)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    number: int
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Outer:
    """Every form of field that drafts and messages may have."""

    inner: Inner
    maybe: Inner | None = None
    names: tuple[UserId, ...] = ()
    sets: Mapping[str, frozenset[UserId]] | None = None
    anything: Mapping[str, Any] | None = None


class TestFields:
    @pytest.mark.parametrize(
        "value",
        [
            Outer(Inner(1)),
            Outer(
                Inner(1), Inner(2), (UserId("a"), UserId("b")), {"x": frozenset({UserId("a")})}, {"y": [1, {"z": 2}]}
            ),
        ],
    )
    def test_nested_values_arrive_as_they_were(self, value: Outer) -> None:
        assert codec._from_wire(Outer, travelled(codec._to_wire(value)), is_strict=True) == value

    @pytest.mark.parametrize(
        "value", [{"inner": {"number": 1, "colour": "blue"}}, {"inner": {"number": 1}, "names": "ab"}, {"inner": None}]
    )
    def test_values_of_another_form_are_refused(self, value: object) -> None:
        with pytest.raises(UnknownForm):
            codec._from_wire(Outer, value, is_strict=False)

    def test_every_answer_of_the_committer_can_travel(self) -> None:
        (answer,) = get_args(get_type_hints(Committer.submit)["return"])
        assert set(get_args(answer) or [answer]) == set(codec.ANSWERS.values())

    def test_every_field_of_drafts_and_answers_can_travel(self) -> None:
        kinds: list[type[Any]] = [Draft, *codec.ANSWERS.values()]
        for kind in kinds:
            assert codec._decoders(cast("Hashable", kind), True).keys() == {field.name for field in fields(kind)}


class TestAnswers:
    @pytest.mark.parametrize("duplicate", [False, True])
    def test_a_message_arrives_as_it_was(self, *, duplicate: bool) -> None:
        assert answer_from_wire(travelled(answer_to_wire(Sent(MESSAGE, duplicate)))) == Sent(MESSAGE, duplicate)

    def test_a_kind_of_a_newer_version_stays_a_text(self) -> None:
        sent = Sent(replace(MESSAGE, kind="poll", action="vote"), duplicate=True)
        assert answer_from_wire(travelled(answer_to_wire(sent))) == sent

    def test_a_field_that_a_newer_version_added_is_ignored(self) -> None:
        wire = travelled(answer_to_wire(Sent(MESSAGE, duplicate=False)))
        wire["sent"]["message"]["newer"] = 1
        wire["sent"]["newer"] = 1
        assert answer_from_wire(wire) == Sent(MESSAGE, duplicate=False)

    @pytest.mark.parametrize(
        "value", [None, {}, {"sent": None}, {"newer": {}}, {"sent": {}, "error": {}}, {"error": {}}]
    )
    def test_an_answer_of_unknown_form_is_refused(self, value: object) -> None:
        with pytest.raises(UnknownForm):
            answer_from_wire(value)


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            ChatNotFound(),
            InvalidDraft("content: too short", fields={"content": ["too short"]}),
            Overloaded("later", retry_after=1.5),
            StoreUnavailable("no answer"),
            EventLogUnavailable("Kafka is away"),
            Malformed("one class of invalid_request"),
            Invalid("and another"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_an_error_arrives_with_its_class_and_details(self, error: ParleyError) -> None:
        arrived = answer_from_wire(travelled(answer_to_wire(error)))
        assert type(arrived) is type(error)
        assert (arrived.detail, arrived.fields, arrived.retry_after) == (error.detail, error.fields, error.retry_after)
        assert str(arrived) == str(error)

    def test_every_error_can_travel(self) -> None:
        for error in catalogue():
            made = error.__new__(error)
            ParleyError.__init__(made, "detail")
            assert type(answer_from_wire(travelled(answer_to_wire(made)))) is error

    def test_an_error_of_a_newer_version_arrives_as_one_with_its_code(self) -> None:
        wire = travelled(answer_to_wire(Overloaded("later")))
        wire["error"]["type"] = "messaging.errors.RenamedOverloaded"
        assert type(answer_from_wire(wire)) is Overloaded
        wire["error"]["code"] = "newer"
        assert type(answer_from_wire(wire)) is ParleyError
