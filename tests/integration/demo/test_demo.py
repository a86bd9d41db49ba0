"""The demo: seeding is idempotent, and only the demo's people can log in without a code."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import override_settings

from config.wiring.demo import demo_of
from config.wiring.web import Web
from delivery.domain import InboxEntry
from demo.data import ADA, BEN, CHATS, EMI, PEOPLE, SUSPENDED, DemoChat
from demo.seeder import DemoSeeder, DemoServices
from engines.data_directory import environment_of_running_engines
from foundation.kernel.errors import Invalid, Unavailable
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Database, DynamoDBOptions
from messaging.domain import Draft, Kind, Message, Sent
from messaging.services.committer import Committer
from messaging.stores.messages import MessageStore


@pytest.fixture
def environment(
    database: Database, dynamodb_options: DynamoDBOptions, kafka_servers: str, redis_url: str
) -> dict[str, str]:
    return {
        "DYNAMODB_ENDPOINT_URL": str(dynamodb_options.endpoint_url),
        "TABLE_PREFIX": dynamodb_options.table_prefix,
        "KAFKA_BOOTSTRAP_SERVERS": kafka_servers,
        "REDIS_URL": redis_url,
    }


@pytest.fixture
def parts(environment: dict[str, str]) -> Iterator[Web]:
    with override_settings(**environment):
        parts = Web()
        yield parts
        parts.clients.loop.run(parts.close())
        parts.clients.loop.close()


def services_of(seeder: DemoSeeder) -> DemoServices:
    return seeder._services


def entries_of(parts: Web, user_id: UserId) -> list[InboxEntry]:
    return parts.clients.loop.run(parts.delivery.inbox.list_chats(user_id, limit=200, cursor=None)).entries


def texts_by_chat(parts: Web, name: str) -> dict[str | None, list[str]]:
    """The entries of every chat of the person, by its name; the direct ones together under None."""
    user_id = demo_of(parts).seed()[name].user_id
    found: dict[str | None, list[str]] = {}
    store = MessageStore(parts.clients.database.on_loop)
    for entry in entries_of(parts, user_id):
        chat, last = entry.listed.state.chat, entry.listed.state.last_sequence
        messages = parts.clients.loop.run(store.list_between(chat.chat_id, 1, last))
        found.setdefault(chat.name, []).extend(map(text_of, messages))
    return found


def text_of(entry: Message) -> str:
    return entry.content if entry.kind is Kind.MESSAGE else f"{entry.kind} of {entry.target}"


def expected_texts(name: str) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for chat in CHATS:
        if name in chat.members:
            found.setdefault(chat.name, []).extend(expected_texts_of(chat))
    return found


def expected_texts_of(chat: DemoChat) -> list[str]:
    rewritten = {change.target: change.text for change in chat.changes if change.kind in (Kind.EDIT, Kind.DELETION)}
    texts = [rewritten.get(number, text) for number, (_, text) in enumerate(chat.messages, start=1)]
    return [*texts, *(f"{change.kind} of {change.target}" for change in chat.changes)]


def ordered(texts: dict[str | None, list[str]]) -> dict[str | None, list[str]]:
    return {name: sorted(found) if name is None else found for name, found in texts.items()}


class TestDemoSeeder:
    def test_seeding_again_changes_nothing(self, parts: Web) -> None:
        first = demo_of(parts).seed()
        again = DemoSeeder(services_of(demo_of(parts))).seed()
        assert {name: user.user_id for name, user in again.items()} == {
            name: user.user_id for name, user in first.items()
        }
        for name in PEOPLE:
            assert ordered(texts_by_chat(parts, name)) == ordered(expected_texts(name))

    def test_an_interrupted_run_is_completed(self, parts: Web) -> None:
        services = services_of(demo_of(parts))
        failing = DemoSeeder(replace(services, committer=FailingCommitter(services.committer, after=5)))
        with pytest.raises(Unavailable):
            failing.seed()
        assert ordered(texts_by_chat(parts, ADA)) == ordered(expected_texts(ADA))

    def test_unread_counts_are_those_of_the_data(self, parts: Web) -> None:
        for name, expected in ((ADA, 4), (BEN, 0), (EMI, 5)):
            user_id = demo_of(parts).seed()[name].user_id
            assert sum(entry.unread_count for entry in entries_of(parts, user_id)) == expected


class TestLogin:
    def test_a_person_of_the_demo_gets_a_session(self, parts: Web) -> None:
        login = demo_of(parts).log_in(BEN, device_id="a browser")
        assert login.user.phone_number == PEOPLE[BEN]
        caller = parts.clients.loop.run(parts.accounts.verifier.verify(login.tokens.access_token))
        assert caller.user_id == login.user.user_id

    def test_any_other_user_is_refused(self, parts: Web) -> None:
        number = "+4915112345678"
        services_of(demo_of(parts)).registration.find_or_create(number, display_name="Mallory")
        for name in ("Mallory", number, ""):
            with pytest.raises(Invalid):
                demo_of(parts).log_in(name, device_id="a browser")


class TestStaff:
    def test_there_is_a_suspended_person_to_look_at_until_staff_restores_the_account(self, parts: Web) -> None:
        demo_of(parts).seed()
        name, number = SUSPENDED
        person = parts.accounts.records.get(number)
        assert (person.display_name, person.suspended_at is not None) == (name, True)
        parts.accounts.suspensions.restore(person.user_id)
        demo_of(parts).seed()
        assert parts.accounts.records.get(number).suspended_at is None


class TestCommand:
    def test_it_finds_the_engines_of_the_running_dev_command(self, environment: dict[str, str], tmp_path: Path) -> None:
        describe(tmp_path, environment, pid=os.getpid())
        result = demo(tmp_path)
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        for line, (name, number) in zip(lines, PEOPLE.items(), strict=False):
            assert line.startswith(name)
            assert number in line

    def test_without_a_run_it_says_what_is_missing(self, tmp_path: Path) -> None:
        result = demo(tmp_path, DYNAMODB_ENDPOINT_URL="http://127.0.0.1:9")
        assert result.returncode == 2
        assert result.stderr.strip().endswith(f"Is `manage.py dev` running on {tmp_path}?")

    def test_engines_of_a_dead_process_are_not_used(self, tmp_path: Path) -> None:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        describe(tmp_path, {"REDIS_URL": "redis://127.0.0.1:9"}, pid=gone.pid)
        assert environment_of_running_engines(tmp_path) == {}
        describe(tmp_path, {"REDIS_URL": "redis://127.0.0.1:9"}, pid=os.getpid())
        assert environment_of_running_engines(tmp_path) == {"REDIS_URL": "redis://127.0.0.1:9"}

    def test_without_a_readable_description_there_are_no_engines(self, tmp_path: Path) -> None:
        assert environment_of_running_engines(tmp_path) == {}
        (tmp_path / "engines.json").write_text("{")
        assert environment_of_running_engines(tmp_path) == {}


def describe(data_dir: Path, environment: dict[str, str], *, pid: int) -> None:
    described = {"all": {"endpoint": "", "pid": pid, "environment": environment}}
    (data_dir / "engines.json").write_text(json.dumps(described))


def demo(data_dir: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return subprocess.run(
        [sys.executable, "manage.py", "demo"],
        env={**clean, "DATA_DIR": str(data_dir), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class FailingCommitter(Committer):
    """Sends `after` messages, then raises `Unavailable`."""

    def __init__(self, committer: Committer, *, after: int) -> None:
        self._committer = committer
        self._left = after

    async def send(self, draft: Draft) -> Sent:
        if self._left == 0:
            raise Unavailable("no store")
        self._left -= 1
        return await self._committer.send(draft)
