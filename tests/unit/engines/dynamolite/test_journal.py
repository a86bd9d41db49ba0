"""Every acknowledged write survives a crash at any moment."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dynamolite.journal import HEADER, JOURNAL_BYTES, Journal
from tests.unit.engines.dynamolite.engine import PLAIN, TABLE, Engine, RequestFailed, plain, values
from tests.unit.engines.dynamolite.test_service import FailingCommit

SIZE = 1000


def reopened(path: Path, epoch: int = 7) -> list[bytes]:
    journal = Journal(path, epoch=epoch, size=SIZE)
    found = list(journal.records())
    journal.close()
    return found


class TestJournal:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "journal"

    @pytest.fixture
    def journal(self, path: Path) -> Iterator[Journal]:
        journal = Journal(path, epoch=7, size=SIZE)
        yield journal
        journal.close()

    def test_a_new_journal_is_empty(self, journal: Journal) -> None:
        assert list(journal.records()) == []

    def test_records_are_read_in_order(self, journal: Journal, path: Path) -> None:
        records = [b"first", b"", b"third" * 20]
        assert all(journal.append(record) for record in records)
        assert list(journal.records()) == records == reopened(path)

    def test_a_reopened_journal_appends_after_its_records(self, journal: Journal, path: Path) -> None:
        journal.append(b"first")
        second = Journal(path, epoch=7, size=SIZE)
        second.append(b"second")
        second.close()
        assert reopened(path) == [b"first", b"second"]

    def test_a_record_that_does_not_fit_is_not_written(self, journal: Journal, path: Path) -> None:
        assert journal.append(b"x" * (SIZE - 2 * HEADER.size))
        assert not journal.append(b"y")
        assert journal.append(b"")
        assert reopened(path) == [b"x" * (SIZE - 2 * HEADER.size), b""]

    def test_an_epoch_has_no_records_of_the_previous_one(self, journal: Journal, path: Path) -> None:
        for number in range(3):
            journal.append(b"old %d" % number)
        journal.start_epoch(8)
        assert list(journal.records()) == [] == reopened(path, epoch=8)
        journal.append(b"new 0")
        assert list(journal.records()) == [b"new 0"] == reopened(path, epoch=8)

    def test_the_records_of_the_stored_epoch_stay_readable(self, journal: Journal, path: Path) -> None:
        journal.append(b"old")
        journal.start_epoch(8)
        assert reopened(path) == [b"old"]

    @given(whole=st.lists(st.binary(max_size=60), max_size=5), torn=st.binary(min_size=1, max_size=60), data=st.data())
    def test_a_torn_record_is_ignored_and_those_before_it_are_kept(
        self, tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], torn: bytes, data: st.DataObject
    ) -> None:
        path = tmp_path_factory.mktemp("torn") / "journal"
        journal = Journal(path, epoch=7, size=SIZE)
        for record in (*whole, torn):
            assert journal.append(record)
        journal.close()
        start = sum(HEADER.size + len(record) for record in whole)
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(start, start + HEADER.size + len(torn) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        assert reopened(path) == whole


def failing(*_: object) -> bool:
    raise OSError("No space left on device")


def after_a_crash(where: Path) -> Engine:
    """Open a copy of the files. It has the state that a crash at this moment would leave."""
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

    def test_puts_updates_and_deletes_survive(self, engine: Engine, tmp_path: Path) -> None:
        for number in range(5):
            engine.put(TABLE, pk="p", sk=number, gp="g", gs=str(number))
        engine.call("DeleteItem", TableName=TABLE, Key=values({"pk": "p", "sk": 1}))
        update = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "changed"}}}
        engine.call("UpdateItem", TableName=TABLE, Key=values({"pk": "p", "sk": 2}), **update)
        crashed = after_a_crash(tmp_path)
        assert crashed.all(TABLE) == engine.all(TABLE)
        assert [item["sk"] for item in crashed.all(TABLE)] == [0, 2, 3, 4]
        assert (crashed.find(TABLE, pk="p", sk=2) or {})["a"] == "changed"
        crashed.store.close()

    def test_writes_survive_before_and_after_every_checkpoint(self, engine: Engine, tmp_path: Path) -> None:
        for number in range(6):
            engine.put(pk=str(number), value=number)
            for is_checkpoint in (False, True):
                if is_checkpoint and number % 2:
                    engine.service.checkpoint()
                crashed = after_a_crash(tmp_path)
                assert len(crashed.all()) == number + 1
                crashed.store.close()
                shutil.rmtree(tmp_path / "crashed")

    def test_after_a_checkpoint_the_journal_is_not_needed(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="before")
        old = engine.store._epoch()
        engine.service.checkpoint()
        assert engine.store._epoch() != old
        (tmp_path / "file.journal").write_bytes(b"")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["before"]
        crashed.store.close()

    def test_a_checkpoint_without_writes_does_nothing(self, engine: Engine) -> None:
        engine.service.checkpoint()
        old = engine.store._epoch()
        engine.find(pk="missing")
        engine.service.checkpoint()
        assert engine.store._epoch() == old

    def test_writes_survive_a_failed_checkpoint(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = engine.store
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(store, "_database", FailingCommit(store._database))
            with pytest.raises(sqlite3.OperationalError):
                engine.service.checkpoint()
        assert [item["pk"] for item in engine.all()] == ["before"]
        engine.put(pk="after")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_writes_survive_a_second_crash(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="before")
        crashed = after_a_crash(tmp_path)
        crashed.put(pk="after")
        again = after_a_crash(tmp_path / "crashed")
        assert [item["pk"] for item in again.all()] == ["after", "before"]
        again.store.close()
        crashed.store.close()

    def test_a_table_that_was_deleted_and_created_again_is_empty(self, engine: Engine, tmp_path: Path) -> None:
        engine.put(pk="old")
        engine.call("DeleteTable", TableName=PLAIN)
        engine.call("CreateTable", **plain())
        crashed = after_a_crash(tmp_path)
        assert crashed.all() == []
        crashed.store.close()

    def test_deleted_expired_items_do_not_return(self, engine: Engine, tmp_path: Path) -> None:
        engine.call(
            "UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification={"Enabled": True, "AttributeName": "t"}
        )
        engine.put(pk="expired", t=int(engine.now) - 10)
        engine.put(pk="alive", t=int(engine.now) + 10)
        assert engine.service.delete_expired() == 1
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["alive"]
        crashed.store.close()

    def test_a_failed_batch_does_not_roll_back_earlier_ones(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(engine.store._journal, "append", failing)
            with pytest.raises(RequestFailed, match="InternalServerError"):
                engine.put(pk="failed")
        assert [item["pk"] for item in engine.all()] == ["before"]
        engine.put(pk="after")
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_after_a_failed_commit_the_next_batch_is_committed_and_not_appended_to_the_journal(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The failed commit may be on disk, with an epoch that makes the journal's records obsolete."""
        store = engine.store
        engine.put(pk="before")
        with monkeypatch.context() as broken:
            broken.setattr(store, "_database", FailingCommit(store._database))
            with pytest.raises(RequestFailed, match="InternalServerError"):
                engine.call("CreateTable", **{**plain(), "TableName": "another"})
        old = store._epoch()
        engine.put(pk="after")
        assert store._epoch() != old
        crashed = after_a_crash(tmp_path)
        assert [item["pk"] for item in crashed.all()] == ["after", "before"]
        crashed.store.close()

    def test_a_damaged_record_fails_every_request(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A response without an acknowledged write would be worse than an error."""
        engine.put(pk="before")
        journal = tmp_path / "file.journal"
        content = journal.read_bytes()
        with journal.open("r+b") as damaged:
            damaged.seek(HEADER.size + 3)
            damaged.write(b"?")
        with monkeypatch.context() as broken:
            broken.setattr(engine.store, "_persist", failing)
            with pytest.raises(RequestFailed, match="InternalServerError"):
                engine.put(pk="failed")
        with pytest.raises(RequestFailed, match="InternalServerError"):
            engine.find(pk="before")
        journal.write_bytes(content)
        assert [item["pk"] for item in engine.all()] == ["before"]

    def test_a_full_journal_makes_sqlite_commit(self, engine: Engine, tmp_path: Path) -> None:
        large, old = 390_000, engine.store._epoch()
        count = JOURNAL_BYTES // large + 2
        for number in range(count):
            engine.put(pk=str(number), text="x" * large)
        assert engine.store._epoch() != old
        crashed = after_a_crash(tmp_path)
        assert all(crashed.find(pk=str(number)) is not None for number in range(count))
        crashed.store.close()
