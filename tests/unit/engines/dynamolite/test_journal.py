"""What was answered is there after a crash, wherever that strikes."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dynamolite.journal import HEAD, SIZE, Journal
from tests.unit.engines.dynamolite.engine import PLAIN, TABLE, Engine, Refused, plain, values
from tests.unit.engines.dynamolite.test_service import Uncommitting

ROOM = 1000


def reopened(path: Path, current: int = 7) -> list[bytes]:
    journal = Journal(path, current=current, size=ROOM)
    found = list(journal.records())
    journal.close()
    return found


class TestJournal:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "journal"

    @pytest.fixture
    def journal(self, path: Path) -> Iterator[Journal]:
        journal = Journal(path, current=7, size=ROOM)
        yield journal
        journal.close()

    def test_a_new_one_is_empty(self, journal: Journal) -> None:
        assert list(journal.records()) == []

    def test_records_are_found_again_in_their_order(self, journal: Journal, path: Path) -> None:
        records = [b"first", b"", b"third" * 20]
        assert all(journal.append(record) for record in records)
        assert list(journal.records()) == records == reopened(path)

    def test_one_that_was_opened_again_goes_on_behind_what_it_found(self, journal: Journal, path: Path) -> None:
        journal.append(b"first")
        second = Journal(path, current=7, size=ROOM)
        second.append(b"second")
        second.close()
        assert reopened(path) == [b"first", b"second"]

    def test_what_does_not_fit_is_not_written(self, journal: Journal, path: Path) -> None:
        assert journal.append(b"x" * (ROOM - 2 * HEAD.size))
        assert not journal.append(b"y")
        assert journal.append(b"")
        assert reopened(path) == [b"x" * (ROOM - 2 * HEAD.size), b""]

    def test_a_round_knows_nothing_of_the_one_before(self, journal: Journal, path: Path) -> None:
        for number in range(3):
            journal.append(b"old %d" % number)
        journal.begin(8)
        assert list(journal.records()) == [] == reopened(path, current=8)
        journal.append(b"new 0")
        assert list(journal.records()) == [b"new 0"] == reopened(path, current=8)

    def test_until_another_round_counts_the_old_one_does(self, journal: Journal, path: Path) -> None:
        journal.append(b"old")
        journal.begin(8)
        assert reopened(path) == [b"old"]

    @given(whole=st.lists(st.binary(max_size=60), max_size=5), torn=st.binary(min_size=1, max_size=60), data=st.data())
    def test_a_torn_record_is_none_and_takes_none_before_it_along(
        self, tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], torn: bytes, data: st.DataObject
    ) -> None:
        path = tmp_path_factory.mktemp("torn") / "journal"
        journal = Journal(path, current=7, size=ROOM)
        for record in (*whole, torn):
            assert journal.append(record)
        journal.close()
        start = sum(HEAD.size + len(record) for record in whole)
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(start, start + HEAD.size + len(torn) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        assert reopened(path) == whole


def failing(*_: object) -> bool:
    raise OSError("No space left on device")


def after_a_crash(where: Path) -> Engine:
    """A crash leaves the files as they are at that moment: whoever opens a copy of them finds what it would find."""
    copy = where / "crashed"
    copy.mkdir()
    for file in where.glob("file*"):
        shutil.copy(file, copy)
    return Engine(copy / "file")


class TestCrashes:
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = Engine(tmp_path / "file")
        engine.create_tables()
        yield engine
        engine.store.close()

    def test_puts_changes_and_deletions_that_were_answered_are_there(self, engine: Engine, tmp_path: Path) -> None:
        for number in range(5):
            engine.put(TABLE, pk="p", sk=number, gp="g", gs=str(number))
        engine.ask("DeleteItem", TableName=TABLE, Key=values({"pk": "p", "sk": 1}))
        update = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "changed"}}}
        engine.ask("UpdateItem", TableName=TABLE, Key=values({"pk": "p", "sk": 2}), **update)
        crashed = after_a_crash(tmp_path)
        assert crashed.all(TABLE) == engine.all(TABLE)
        assert [item["sk"] for item in crashed.all(TABLE)] == [0, 2, 3, 4]
        assert (crashed.find(TABLE, pk="p", sk=2) or {})["a"] == "changed"
        crashed.store.close()

    def test_before_and_behind_every_commit(self, engine: Engine, tmp_path: Path) -> None:
        for number in range(6):
            engine.put(pk=str(number), value=number)
            for settles in (False, True):
                if settles and number % 2:
                    engine.service.settle()
                crashed = after_a_crash(tmp_path)
                assert len(crashed.all()) == number + 1
                crashed.store.close()
                shutil.rmtree(tmp_path / "crashed")

    def test_what_is_settled_needs_no_journal(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="before")
        old = engine.store._round()
        engine.service.settle()
        settled = engine.store._round()
        assert settled != old
        (tmp_path / "file.journal").write_bytes(b"")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["before"]
        crashed.store.close()

    def test_where_nothing_was_written_nothing_is_settled(self, engine: Engine) -> None:
        engine.service.settle()
        old = engine.store._round()
        engine.find(pk="nobody")
        engine.service.settle()
        assert engine.store._round() == old

    def test_a_settling_that_failed_is_made_up_for(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = engine.store
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(store, "_database", Uncommitting(store._database))
            with pytest.raises(sqlite3.OperationalError):
                engine.service.settle()
        assert [item["pk"] for item in engine.all()] == ["before"]
        engine.put(pk="after")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_a_second_crash_finds_what_the_first_left(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="before")
        crashed = after_a_crash(tmp_path)
        crashed.put(pk="after")
        again = after_a_crash(tmp_path / "crashed")
        assert [item["pk"] for item in again.all()] == ["after", "before"]
        again.store.close()
        crashed.store.close()

    def test_a_table_that_was_deleted_and_made_again_is_empty(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="old")
        engine.ask("DeleteTable", TableName=PLAIN)
        engine.ask("CreateTable", **plain())
        crashed = after_a_crash(tmp_path)
        assert crashed.all() == []
        crashed.store.close()

    def test_what_was_swept_does_not_come_back(self, engine: Engine, tmp_path: Path) -> None:
        engine.ask("UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification={"Enabled": True, "AttributeName": "t"})
        engine.put(pk="expired", t=int(engine.now) - 10)
        engine.put(pk="alive", t=int(engine.now) + 10)
        assert engine.service.sweep() == 1
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["alive"]
        crashed.store.close()

    def test_a_group_that_failed_takes_nothing_before_it_back(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(engine.store._journal, "append", failing)
            with pytest.raises(Refused, match="InternalServerError"):
                engine.put(pk="failed")
        assert [item["pk"] for item in engine.all()] == ["before"]
        engine.put(pk="after")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_after_a_commit_that_failed_nothing_is_left_to_the_journal_before_another(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may be on disk all the same, and with it the round that makes the records of this one worthless."""
        store = engine.store
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(store, "_database", Uncommitting(store._database))
            with pytest.raises(Refused, match="InternalServerError"):
                engine.ask("CreateTable", **{**plain(), "TableName": "another"})
        old = store._round()
        engine.put(pk="after")
        assert store._round() != old
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_a_record_that_cannot_be_read_again_stops_everything(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Better no answers than answers from which something that was promised is missing."""
        engine.put(pk="before")
        journal = tmp_path / "file.journal"
        content = journal.read_bytes()
        with journal.open("r+b") as damaged:
            damaged.seek(HEAD.size + 3)
            damaged.write(b"?")
        with monkeypatch.context() as broken:
            broken.setattr(engine.store, "_keep", failing)
            with pytest.raises(Refused, match="InternalServerError"):
                engine.put(pk="failed")
        with pytest.raises(Refused, match="InternalServerError"):
            engine.find(pk="before")
        journal.write_bytes(content)
        assert [item["pk"] for item in engine.all()] == ["before"]

    def test_more_than_the_journal_holds_is_committed(self, engine: Engine, tmp_path: Path) -> None:
        large, old = 390_000, engine.store._round()
        count = SIZE // large + 2
        for number in range(count):
            engine.put(pk=str(number), text="x" * large)
        assert engine.store._round() != old
        crashed = after_a_crash(tmp_path)
        assert all(crashed.find(pk=str(number)) is not None for number in range(count))
        crashed.store.close()
