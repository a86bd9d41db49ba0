"""Ids, time, cursors, events, retries: pure and small."""

from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID
from ulid.base32 import ENCODE

from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.cursors import CursorCodec, InvalidCursor
from foundation.kernel.errors import ParleyError, catalogue
from foundation.kernel.events import TOPICS, Event, MalformedEvent
from foundation.kernel.ids import IdFactory, is_chat_id, is_session_id, is_user_id
from foundation.kernel.retry import RetryPolicy
from tests.doubles import SettableClock

RANDOM_LETTERS = 16

moments = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


class TestTime:
    def test_the_form_of_the_contract(self) -> None:
        berlin = timezone(timedelta(hours=1))
        assert to_iso(datetime(2026, 1, 30, 15, 30, 0, 7999, tzinfo=berlin)) == "2026-01-30T14:30:00.007Z"

    @given(moments, moments)
    def test_sorts_as_text_like_it_sorts_as_time(self, one: datetime, other: datetime) -> None:
        assert (to_iso(one) < to_iso(other)) <= (one < other)

    @given(moments)
    def test_reads_back_to_the_millisecond(self, moment: datetime) -> None:
        assert from_iso(to_iso(moment)) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    @pytest.mark.parametrize("text", ["yesterday", "2026-01-30T14:30:00", ""])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r".*"):
            from_iso(text)

    def test_a_time_beyond_the_range_overflows(self) -> None:
        with pytest.raises(OverflowError):
            from_iso("9999-12-31T23:59:59-01:00")


class TestIds:
    def test_the_prefix_says_what_is_named(self) -> None:
        ids = IdFactory(SettableClock())
        assert is_user_id(ids.user())
        assert is_chat_id(ids.chat())
        assert is_session_id(ids.session())
        assert not is_user_id(ids.chat())
        assert ids.connection("gw-1").startswith("gw-1.conn_")

    def test_later_ids_sort_later(self) -> None:
        clock = SettableClock()
        ids = IdFactory(clock)
        first = ids.message()
        clock.advance(milliseconds=1)
        assert first < ids.message()

    @given(moments)
    def test_an_id_is_a_ulid_of_its_moment(self, moment: datetime) -> None:
        clock = SettableClock(moment)
        born = ULID.from_str(IdFactory(clock).message().removeprefix("msg_"))
        assert born.milliseconds == int(moment.timestamp() * 1000)

    def test_ids_of_one_moment_differ_in_every_letter(self) -> None:
        ids = IdFactory(SettableClock())
        tails = [ids.message()[-RANDOM_LETTERS:] for _ in range(2_000)]
        assert len(set(tails)) == len(tails)
        assert all(set(letters) == set(ENCODE) for letters in zip(*tails, strict=True))

    @pytest.mark.parametrize("text", ["", "user_", "user_short", "user_01HQX" + "!" * 21, "USER_" + "0" * 26])
    def test_other_forms_are_not_ids(self, text: str) -> None:
        assert not is_user_id(text)


class TestCursors:
    codec = CursorCodec("secret")

    def test_goes_there_and_back(self) -> None:
        cursor = self.codec.encode({"chat_id": "chat_1"}, scope="inbox", owner="ann")
        assert self.codec.decode(cursor, scope="inbox", owner="ann") == {"chat_id": "chat_1"}

    @pytest.mark.parametrize(("scope", "owner"), [("inbox", "eve"), ("members", "ann")])
    def test_belongs_to_one_caller_and_one_list(self, scope: str, owner: str) -> None:
        cursor = self.codec.encode({"chat_id": "chat_1"}, scope="inbox", owner="ann")
        with pytest.raises(InvalidCursor):
            self.codec.decode(cursor, scope=scope, owner=owner)

    @given(st.text(max_size=60))
    def test_whatever_else_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidCursor):
            self.codec.decode(text, scope="inbox", owner="ann")

    def test_another_secret_is_refused(self) -> None:
        cursor = CursorCodec("other").encode({"a": 1}, scope="inbox", owner="ann")
        with pytest.raises(InvalidCursor):
            self.codec.decode(cursor, scope="inbox", owner="ann")


class TestEvents:
    event = Event(
        event_type="MessagePersisted",
        event_id="evt_1",
        event_time=datetime(2026, 1, 30, 14, 30, tzinfo=UTC),
        partition_key="chat_1",
        payload={"sequence": 47, "content": "Hello, world! 𝄞"},
    )

    def test_the_envelope_of_adr_003(self) -> None:
        assert orjson.loads(self.event.encode()) == {
            "event_type": "MessagePersisted",
            "event_id": "evt_1",
            "event_time": "2026-01-30T14:30:00.000Z",
            "partition_key": "chat_1",
            "payload": {"sequence": 47, "content": "Hello, world! 𝄞"},
        }
        assert self.event.topic == "messages.persisted"
        assert TOPICS == ("messages.persisted", "memberships.changed", "chats.created")

    def test_goes_there_and_back(self) -> None:
        assert Event.decode(self.event.encode()) == self.event

    def test_a_field_of_a_newer_version_does_no_harm(self) -> None:
        data = orjson.dumps({**orjson.loads(self.event.encode()), "trace": "x"})
        assert Event.decode(data) == self.event

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b'{"event_type":"X","event_id":"e","event_time":"2026-01-30T14:30:00.000Z","partition_key":"c","payload":{}}',
            b'{"event_type":"ChatCreated","event_id":"e","event_time":"soon","partition_key":"c","payload":{}}',
            b'{"event_type":"ChatCreated","event_id":"","event_time":"2026-01-30T14:30:00Z","partition_key":"","payload":[]}',
            b'{"event_type":[],"event_id":"","event_time":"2026-01-30T14:30:00Z","partition_key":"","payload":{}}',
        ],
    )
    def test_anything_else_is_malformed(self, data: bytes) -> None:
        with pytest.raises(MalformedEvent):
            Event.decode(data)

    @given(st.binary(max_size=200))
    def test_no_bytes_raise_anything_but_malformed(self, data: bytes) -> None:
        with pytest.raises(MalformedEvent):
            Event.decode(data)


class TestRetries:
    def test_pauses_between_attempts_and_gives_up(self) -> None:
        pauses: list[float] = []
        assert list(RetryPolicy(attempts=4).tries(pauses.append)) == [0, 1, 2, 3]
        assert len(pauses) == 3

    async def test_coroutines_pause_alike(self) -> None:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        assert [attempt async for attempt in RetryPolicy(attempts=4).async_tries(sleep)] == [0, 1, 2, 3]
        assert len(pauses) == 3

    def test_pauses_grow_to_a_bound_and_differ(self) -> None:
        policy = RetryPolicy(first_pause=0.1, longest_pause=0.4)
        assert all(0 <= policy.pause(attempt) <= 0.4 for attempt in range(100))
        assert len({policy.pause(5) for _ in range(20)}) > 10


class TestCatalogue:
    def test_each_code_once_and_each_with_a_title(self) -> None:
        errors = list(catalogue())
        codes = [error.code for error in errors]
        assert codes == sorted(set(codes))
        assert all(issubclass(error, ParleyError) and error.title for error in errors)
