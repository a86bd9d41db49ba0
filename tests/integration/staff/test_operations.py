"""`replay`, `check_deploy` and `drain`, run as an operator runs them."""

import json
import uuid
from dataclasses import replace

import pytest

from config.wiring.commands import TABLES
from foundation.kernel.events import MESSAGES_PERSISTED
from foundation.stores.dynamodb import Database, DynamoDBOptions
from foundation.stores.kafka import ConsumerGroup, EventConsumer, EventLogAdmin, KafkaOptions
from foundation.stores.redis.client import RedisOptions, connect
from staff.services.access import FANOUT_PATTERNS, staff_patterns
from staff.services.deploy_checks import Deployment as Target
from staff.services.deploy_checks import Role, check
from tests.doubles import SettableClock, eventually
from tests.integration.staff.conftest import Manage
from tests.integration.staff.deployment import Deployment


class TestReplay:
    def test_a_group_is_moved_to_the_beginning_and_a_dry_run_moves_nothing(
        self, deployment: Deployment, manage: Manage, kafka_options: KafkaOptions
    ) -> None:
        ann, bob = deployment.person(), deployment.person()
        chat_id = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat_id, ann.user_id)
        group = ConsumerGroup(kafka_options, f"group-{uuid.uuid4()}")
        group.move([(place, place.end) for place in group.progress([MESSAGES_PERSISTED])])
        common = ("replay", "--group", group.name, "--from", "beginning", "--topic", MESSAGES_PERSISTED)
        planned = manage(*common, "--dry-run", "--json")
        assert planned.returncode == 0, planned.stderr
        assert sum(each["end"] - each["target"] for each in json.loads(planned.stdout)["partitions"]) > 0
        assert sum(place.lag for place in group.progress([MESSAGES_PERSISTED])) == 0
        moved = manage(*common, "--yes", "--reason", "a test")
        assert moved.returncode == 0, moved.stderr
        assert all(place.committed == place.first for place in group.progress([MESSAGES_PERSISTED]))
        group.close()

    def test_a_group_with_members_is_refused(self, manage: Manage, kafka_options: KafkaOptions) -> None:
        name = f"group-{uuid.uuid4()}"
        group = ConsumerGroup(kafka_options, name)
        consumer = EventConsumer(
            replace(kafka_options, session_timeout_ms=6000), group=name, topics=[MESSAGES_PERSISTED]
        )
        try:
            eventually(lambda: consumer.read(timeout=0.1) or group.members(), within=20)
            refused = manage("replay", "--group", name, "--from", "1h", "--yes")
            assert refused.returncode == 2
            assert "stop its consumers" in refused.stderr
        finally:
            consumer.close()
            group.close()


class TestCheckDeploy:
    @pytest.fixture
    def target(self, database: Database, kafka_options: KafkaOptions, redis_url: str) -> Target:
        return Target(
            database=database,
            tables=TABLES,
            capacities={},
            event_log=EventLogAdmin(kafka_options),
            redis=connect(RedisOptions(url=redis_url)),
            clock=SettableClock(),
            is_embedded=True,
            role=Role(staff_patterns(), may_write=True, may_describe=True),
        )

    def kinds(self, target: Target) -> list[str]:
        return [finding.kind for finding in check(target).findings]

    def test_a_clock_that_is_years_ahead_is_told(self, target: Target) -> None:
        assert self.kinds(target) == ["settings", "clocks"]

    def test_a_role_that_may_write_is_wrong_for_the_fanout(self, target: Target) -> None:
        assert self.kinds(replace(target, role=Role(FANOUT_PATTERNS))).count("iam") == len(TABLES)

    def test_trying_what_a_role_may_changes_nothing(self, target: Target) -> None:
        def stored() -> list[int]:
            names = [target.database.table_name(table) for table in TABLES]
            return [target.database.call("Scan", {"TableName": name})["Count"] for name in names]

        before = stored()
        check(target)
        assert stored() == before

    def test_missing_tables_and_engines_that_are_away_are_told_in_sentences(
        self, target: Target, dynamodb_options: DynamoDBOptions
    ) -> None:
        nowhere = connect(RedisOptions(url="redis://127.0.0.1:9/0"))
        report = check(replace(target, database=Database(dynamodb_options), redis=nowhere))
        assert [finding.kind for finding in report.findings].count("schema") == len(TABLES)
        away = [finding.detail for finding in report.findings if finding.kind == "unavailable"]
        assert any("Redis" in detail for detail in away)
        assert all(finding.detail.endswith(".") for finding in report.findings)

    def test_the_command_tells_what_it_found(self, manage: Manage) -> None:
        looked = manage("check_deploy", "--json")
        assert looked.returncode == 1, looked.stderr
        assert [each["kind"] for each in json.loads(looked.stdout)["findings"]] == ["settings"]


class TestDrain:
    def test_a_gateway_that_nobody_knows_is_named(self, manage: Manage) -> None:
        refused = manage("drain", "gw-nowhere")
        assert refused.returncode == 1
        assert "gw-nowhere" in refused.stderr
