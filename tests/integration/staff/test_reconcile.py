"""Lost, orphaned and swapped events are found, and repaired where that is right."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from foundation.kernel.events import MESSAGES_PERSISTED, REPUBLISHED_HEADER, Event
from foundation.kernel.ids import ChatId
from foundation.stores.kafka import KafkaOptions, LogReader, Record
from staff.findings import Report
from staff.services.reconcile import Scope
from tests.doubles import eventually
from tests.integration.staff.conftest import Manage
from tests.integration.staff.deployment import Deployment


def reconcile(deployment: Deployment, *chat_ids: str, repair: bool = False) -> Report:
    return deployment.recovery.run(deployment.recovery.reconciler.run(Scope(chat_ids=chat_ids), repair=repair))


def found(report: Report) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.sequence) for finding in report.findings]


def events_of(chat_id: ChatId, options: KafkaOptions, deployment: Deployment) -> list[Record]:
    reader = LogReader(options)
    span = reader.span(MESSAGES_PERSISTED, deployment.clock.now() - timedelta(hours=1))
    records = [record for batch in reader.read(span) for record in batch if record.key == chat_id]
    reader.close()
    return records


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
        assert repaired.is_clean
        assert found(repaired) == [("missing", 2), ("missing", 3)]
        again = events_of(chat_id, kafka_options, deployment)[-2:]
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
        assert not report.is_clean

    def test_an_event_with_the_place_of_another_message_is_an_orphan(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        deployment.publish(deployment.invented(chat_id, bob.user_id, 1))
        assert found(reconcile(deployment, chat_id)) == [("orphaned", 1)]

    def test_events_of_a_chat_that_does_not_exist_are_orphans(self, deployment: Deployment) -> None:
        ann, chat_id = deployment.person(), deployment.ids.chat()
        deployment.publish(deployment.invented(chat_id, ann.user_id, 1))
        assert found(reconcile(deployment, chat_id)) == [("orphaned", 1)]


class TestOrder:
    def test_swapped_events_are_found_once_and_published_again(self, deployment: Deployment) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        first, second, third = [deployment.send(chat_id, ann.user_id, crash=True) for _ in range(3)]
        deployment.publish(first, third, second)
        assert found(reconcile(deployment, chat_id)) == [("out_of_order", 2)]
        assert reconcile(deployment, chat_id, repair=True).is_clean
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

    def test_what_is_younger_than_ten_seconds_is_not_missing(self, deployment: Deployment, manage: Manage) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id, crash=True)
        assert manage("reconcile", "--chat", chat_id).returncode == 0


class TestCommand:
    def test_a_lost_event_is_found_and_repaired_by_the_command_alone(
        self, deployment: Deployment, manage: Manage, tmp_path: Path
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        deployment.send(chat_id, ann.user_id, crash=True)
        eventually(lambda: manage("reconcile", "--chat", chat_id, "--json").returncode == 1, within=40)
        looked = manage("reconcile", "--chat", chat_id)
        assert "missing" in looked.stdout
        assert "1 of 1 findings are left" in looked.stderr
        repaired = manage("reconcile", "--chat", chat_id, "--repair", "--json", "--as", "drill", "--reason", "a test")
        assert repaired.returncode == 0, repaired.stderr
        answer = json.loads(repaired.stdout)
        assert answer["checked"] == 1
        (finding,) = answer["findings"]
        assert (finding["kind"], finding["chat_id"], finding["sequence"], finding["repaired"]) == (
            "missing",
            chat_id,
            2,
            True,
        )
        assert "Nothing found" in manage("reconcile", "--chat", chat_id).stdout
        with closing(sqlite3.connect(tmp_path / "staff.sqlite3")) as database:
            records = database.execute("SELECT actor, action, target, reason FROM staff_auditrecord").fetchall()
        assert records == [("drill", "reconcile", chat_id, "a test")]

    def test_wrong_use_and_engines_that_are_away_end_with_2(self, manage: Manage) -> None:
        assert manage("reconcile", "--all", "--since", "1h").returncode == 2
        refused = manage("reconcile", "--since", "yesterday")
        assert refused.returncode == 2
        assert "neither a duration" in refused.stderr
