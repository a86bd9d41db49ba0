"""The commands about people, run as an operator runs them."""

import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from accounts.services.records import UserRecords
from accounts.services.registration import Registration
from accounts.stores.users import UserStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from tests.integration.staff.conftest import Manage
from tests.integration.staff.deployment import Deployment

ADA = "+14155550123"


@pytest.fixture
def ada(database: Database) -> str:
    clock = SystemClock()
    registration = Registration(UserStore(database), ids=IdFactory(clock), clock=clock)
    return registration.find_or_create(ADA, display_name="Ada")[0].user_id


def audit_log(data_dir: Path) -> list[tuple[str, str, str, str]]:
    with sqlite3.connect(data_dir / "staff.sqlite3") as database:
        return database.execute("SELECT actor, action, target, reason FROM staff_auditrecord ORDER BY id").fetchall()


class TestPersonCommands:
    def test_suspend_and_restore_change_the_account_and_are_recorded(
        self, manage: Manage, ada: str, database: Database, tmp_path: Path
    ) -> None:
        records = UserRecords(UserStore(database))
        assert manage("suspend", ADA, "--reason", "spam", "--as", "grace").returncode == 0
        assert records.get(ada).suspended_at is not None
        assert json.loads(manage("person", ada, "--json").stdout)["suspended_at"] is not None
        restored = manage("restore", ada, "--reason", "a mistake", "--json", "--as", "grace")
        assert json.loads(restored.stdout)["suspended_at"] is None
        assert audit_log(tmp_path) == [
            ("grace", "suspend", ada, "spam"),
            ("grace", "restore", ada, "a mistake"),
        ]

    def test_a_person_is_shown_with_chats_and_marks_and_without_what_was_written(
        self, manage: Manage, deployment: Deployment
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        text = deployment.send(chat_id, ann.user_id).content
        (chat,) = json.loads(manage("person", bob.user_id, "--json").stdout)["chats"]
        assert (chat["chat_id"], chat["last_acked_sequence"], chat["last_read_sequence"]) == (chat_id, 0, 0)
        assert (chat["last_sequence"], chat["unread_count"]) == (1, 1)
        shown = manage("person", bob.user_id).stdout
        assert f"{chat_id}  direct  member  latest 1, received up to 0, read up to 0, 1 unread" in shown
        assert text not in shown + str(chat)

    def test_export_and_erase(self, manage: Manage, ada: str, database: Database, tmp_path: Path) -> None:
        file = tmp_path / "ada.zip"
        assert manage("export_person", ADA, "--reason", "asked", "--output", str(file)).returncode == 0
        assert json.loads(zipfile.ZipFile(file).read("account.json"))["user_id"] == ada
        assert manage("erase_person", ADA, "--reason", "asked", "--yes").returncode == 0
        assert UserRecords(UserStore(database)).find(ADA) is None
        actors = {actor.partition(":")[0] for actor, *_ in audit_log(tmp_path)}
        assert (actors, [row[1] for row in audit_log(tmp_path)]) == ({"os"}, ["export", "erase"])

    def test_an_export_that_fails_leaves_no_file_and_can_be_repeated(
        self, manage: Manage, ada: str, tmp_path: Path
    ) -> None:
        directory = tmp_path / "exports"
        directory.mkdir()
        common = ("export_person", ADA, "--output", str(directory / "ada.zip"), "--reason")
        refused = manage(*common, "x" * 1001)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert list(directory.iterdir()) == []
        assert manage(*common, "asked").returncode == 0
        (file,) = directory.iterdir()
        assert (zipfile.ZipFile(file).testzip(), file.stat().st_mode & 0o777) == (None, 0o600)

    def test_an_export_overwrites_nothing_and_needs_its_directory(
        self, manage: Manage, ada: str, tmp_path: Path
    ) -> None:
        taken = tmp_path / "taken.zip"
        taken.write_text("mine")
        for path in (taken, tmp_path / "nowhere" / "ada.zip"):
            refused = manage("export_person", ADA, "--reason", "asked", "--output", str(path))
            assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
            assert str(path) in refused.stderr
        assert taken.read_text() == "mine"
        assert audit_log(tmp_path) == []

    def test_nobody_is_exit_code_1_and_no_reason_is_2(self, manage: Manage, ada: str, tmp_path: Path) -> None:
        nobody = manage("suspend", "+14155550199", "--reason", "spam")
        assert (nobody.returncode, nobody.stderr.strip()) == (1, "CommandError: There is no such user")
        no_reason = manage("revoke_sessions", ADA)
        assert (no_reason.returncode, "--reason" in no_reason.stderr) == (2, True)
        assert audit_log(tmp_path) == []

    def test_without_the_audit_log_nothing_is_done(
        self, manage: Manage, ada: str, database: Database, tmp_path: Path
    ) -> None:
        (tmp_path / "staff.sqlite3").unlink()
        refused = manage("suspend", ADA, "--reason", "spam")
        assert refused.returncode == 2
        assert "manage.py migrate" in refused.stderr
        assert UserRecords(UserStore(database)).get(ada).suspended_at is None

    def test_staff_totp_without_the_database_is_one_sentence(self, manage: Manage, tmp_path: Path) -> None:
        (tmp_path / "staff.sqlite3").unlink()
        refused = manage("staff_totp", "grace")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert "manage.py migrate" in refused.stderr
