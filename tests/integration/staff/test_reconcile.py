"""Lost, orphaned and swapped events are found, and repaired where that is right."""

import json
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chats.domain import Role
from foundation.kernel.events import (
    CHATS_CREATED,
    MEMBERSHIPS_CHANGED,
    MESSAGES_PERSISTED,
    REPUBLISHED_HEADER,
    Event,
)
from foundation.stores.errors import StoreUnavailable
from foundation.stores.kafka import KafkaOptions, Span, reader
from messaging.stores.recent_chats import RecentChatsReader
from staff.findings import Report
from staff.services.reconcile import Scope
from tests.doubles import eventually
from tests.integration.staff.conftest import Manage
from tests.integration.staff.deployment import Deployment, published


def reconcile(deployment: Deployment, *chat_ids: str, repair: bool = False) -> Report:
    return deployment.recovery.run(deployment.recovery.reconciler.run(Scope(chat_ids=chat_ids), repair=repair))


def found(report: Report) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.sequence) for finding in report.findings]


class TestLostEvents:
    def test_a_chat_whose_events_are_all_there_has_no_finding(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        for _ in range(3):
            deployment.send(chat_id, ann.user_id)
        report = reconcile(deployment, chat_id)
        assert (found(report), report.checked) == ([], 1)

    def test_a_message_without_an_event_is_missing_and_is_published_in_order(
        self, deployment: Deployment, kafka_options: KafkaOptions
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        lost = [deployment.send(chat_id, bob.user_id, crash=True) for _ in range(2)]
        deployment.send(chat_id, ann.user_id)
        assert found(reconcile(deployment, chat_id)) == [("missing", 2), ("missing", 3)]
        repaired = reconcile(deployment, chat_id, repair=True)
        assert not repaired.left
        assert found(repaired) == [("missing", 2), ("missing", 3)]
        again = published(MESSAGES_PERSISTED, chat_id, kafka_options)[-2:]
        assert [Event.decode(each.value).payload for each in again] == [message.to_json() for message in lost]
        assert all(REPUBLISHED_HEADER in each.headers for each in again)

    def test_a_second_repair_finds_nothing(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id, crash=True)
        deployment.send(chat_id, ann.user_id)
        reconcile(deployment, chat_id, repair=True)
        assert found(reconcile(deployment, chat_id, repair=True)) == []

    def test_more_messages_than_a_page_are_compared(self, deployment: Deployment) -> None:
        ann = deployment.person()
        chat_id = deployment.group(ann.user_id)
        for _ in range(3):
            for _ in range(99):
                deployment.send(chat_id, ann.user_id)
            deployment.send(chat_id, ann.user_id, crash=True)
        assert found(reconcile(deployment, chat_id)) == [("missing", 100), ("missing", 200), ("missing", 300)]


class TestOrphans:
    def test_an_event_without_a_message_is_reported_and_never_repaired(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        deployment.publish(deployment.invented(chat_id, bob.user_id, 7))
        report = reconcile(deployment, chat_id, repair=True)
        assert found(report) == [("orphaned", 7)]
        assert report.left

    def test_an_event_with_the_place_of_another_message_is_an_orphan(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        deployment.publish(deployment.invented(chat_id, bob.user_id, 1))
        assert found(reconcile(deployment, chat_id)) == [("orphaned", 1)]

    def test_events_of_a_chat_that_does_not_exist_are_orphans(self, deployment: Deployment) -> None:
        ann, chat_id = deployment.person(), deployment.ids.chat()
        deployment.publish(deployment.invented(chat_id, ann.user_id, 1))
        assert found(reconcile(deployment, chat_id)) == [("chat_missing", None), ("orphaned", 1)]


class TestOrder:
    def test_swapped_events_are_found_once_and_published_again(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        first, second, third = [deployment.send(chat_id, ann.user_id, crash=True) for _ in range(3)]
        deployment.publish(first, third, second)
        assert found(reconcile(deployment, chat_id)) == [("out_of_order", 2)]
        assert not reconcile(deployment, chat_id, repair=True).left
        assert found(reconcile(deployment, chat_id)) == []

    def test_an_event_that_is_repeated_is_in_order(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        first, second = [deployment.send(chat_id, ann.user_id, crash=True) for _ in range(2)]
        deployment.publish(first, second, first, second)
        assert found(reconcile(deployment, chat_id)) == []


class TestScope:
    def test_all_finds_chats_without_any_event_and_says_that_it_scans(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        silent = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(silent, ann.user_id, crash=True)
        report = deployment.recovery.run(deployment.recovery.reconciler.run(Scope(everything=True)))
        assert ("missing", silent) in [(each.kind, each.chat_id) for each in report.findings]
        assert "offline scan" in report.notes[0]

    def test_since_finds_chats_with_an_event_since_then(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        before = deployment.clock.now()
        deployment.send(chat_id, ann.user_id, crash=True)
        deployment.send(chat_id, ann.user_id)
        report = deployment.recovery.run(deployment.recovery.reconciler.run(Scope(since=before)))
        assert (chat_id, 1) in [(each.chat_id, each.sequence) for each in report.findings]

    @pytest.mark.parametrize(("hours", "is_told"), [(1, False), (2, True)])
    def test_a_time_before_the_notes_of_written_chats_is_told(
        self, deployment: Deployment, hours: int, is_told: bool
    ) -> None:
        scope = Scope(since=deployment.clock.now() - timedelta(hours=hours))
        report = deployment.recovery.run(deployment.recovery.reconciler.run(scope))
        assert any("--all" in note for note in report.notes) is is_told

    def test_without_redis_the_report_tells_what_is_not_found(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise StoreUnavailable("Redis does not answer")

        monkeypatch.setattr(RecentChatsReader, "since", away)
        report = deployment.recovery.run(deployment.recovery.reconciler.run(Scope(since=deployment.clock.now())))
        assert "Redis does not answer" in report.unseen

    def test_what_is_younger_than_ten_seconds_is_not_missing(self, deployment: Deployment, manage: Manage) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id, crash=True)
        assert manage("reconcile", "--chat", chat_id).returncode == 0


class TestPartitions:
    def test_of_a_named_chat_only_its_own_is_read_while_nothing_is_missing(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        read, span = list[int](), reader.LogReader.span

        def spy(*arguments: Any, **options: Any) -> Span:
            found = span(*arguments, **options)
            read.append(len(found.end))
            return found

        monkeypatch.setattr(reader.LogReader, "span", spy)
        assert found(reconcile(deployment, chat_id)) == []
        assert read == [1, 1, 1]

    def test_events_in_another_partition_are_found_before_any_is_called_missing(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        right = reader.partition_of
        monkeypatch.setattr(reader, "partition_of", lambda key, count: (right(key, count) + 1) % count)
        assert found(reconcile(deployment, chat_id, repair=True)) == []


class TestRunsAtOnce:
    def test_one_reads_the_log_while_another_has_read_a_part_of_it(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reader, "BATCH", 1)
        ann, bob = deployment.person(), deployment.person()
        before, chat_id = deployment.clock.now(), deployment.direct(ann.user_id, bob.user_id)
        for _ in range(3):
            deployment.send(chat_id, ann.user_id)
        recovery, has_begun, may_go_on = deployment.recovery, threading.Event(), threading.Event()

        def wait_for_the_other(stage: str, done: int, total: int | None = None) -> None:
            has_begun.set()
            assert may_go_on.wait(60)

        first = recovery.loop.submit(recovery.reconciler.run(Scope(since=before), on_progress=wait_for_the_other))
        assert has_begun.wait(60)
        second = recovery.run(recovery.reconciler.run(Scope(since=before)))
        may_go_on.set()
        for report in (first.result(), second):
            assert chat_id not in [each.chat_id for each in report.findings]


class TestCommand:
    def test_lost_events_of_each_topic_are_found_and_repaired_by_the_command_alone(
        self, deployment: Deployment, manage: Manage, tmp_path: Path
    ) -> None:
        ann, bob = deployment.person().user_id, deployment.person().user_id
        chat_id = deployment.group(ann, crash=True)
        deployment.half_crashing_chats.members.add(chat_id, ann, bob, Role.MEMBER)
        deployment.send(chat_id, ann)
        deployment.send(chat_id, ann, crash=True)
        lost = [(CHATS_CREATED, None, None), (MEMBERSHIPS_CHANGED, 1, bob), (MESSAGES_PERSISTED, 3, None)]

        def is_found() -> bool:
            return len(json.loads(manage("reconcile", "--chat", chat_id, "--json").stdout)["findings"]) == len(lost)

        eventually(is_found, within=40)
        looked = manage("reconcile", "--chat", chat_id)
        assert looked.returncode == 1
        table = [line.split()[:2] for line in looked.stdout.splitlines() if chat_id in line]
        assert table == [["missing", topic] for topic, _, _ in lost]
        assert "3 of 3 findings are left" in looked.stderr
        repaired = manage("reconcile", "--chat", chat_id, "--repair", "--json", "--as", "drill", "--reason", "a test")
        assert repaired.returncode == 0, repaired.stderr
        answer = json.loads(repaired.stdout)
        assert answer["checked"] == 1
        assert [(each["topic"], each["sequence"], each["user_id"]) for each in answer["findings"]] == lost
        assert all(
            (each["kind"], each["chat_id"], each["repaired"]) == ("missing", chat_id, True)
            for each in answer["findings"]
        )
        assert "Nothing is missing: in 1 chat" in manage("reconcile", "--chat", chat_id).stdout
        with closing(sqlite3.connect(tmp_path / "staff.sqlite3")) as database:
            records = database.execute("SELECT actor, action, target, reason FROM staff_auditrecord").fetchall()
        assert records == [("drill", "reconcile", chat_id, "a test")]

    def test_a_chat_that_does_not_exist_is_found_missing(self, deployment: Deployment, manage: Manage) -> None:
        looked = manage("reconcile", "--chat", deployment.ids.chat(), "--json")
        assert looked.returncode == 1
        assert [each["kind"] for each in json.loads(looked.stdout)["findings"]] == ["chat_missing"]

    def test_wrong_use_and_engines_that_are_away_end_with_2(self, manage: Manage) -> None:
        assert manage("reconcile", "--all", "--since", "1h").returncode == 2
        refused = manage("reconcile", "--since", "yesterday")
        assert refused.returncode == 2
        assert "neither a duration" in refused.stderr

    def test_a_time_before_all_events_is_every_event(self, manage: Manage) -> None:
        assert manage("reconcile", "--since", "0001-01-01T00:00:00Z", "--json").returncode in (0, 1)
