"""The policies of `deploy/aws/data.yaml` as AWS applies them, for what moto does not know: resources, and Kafka."""

from typing import Any

import pytest

import foundation.stores.kafka
from deploy.aws.kafka import USES, KafkaUse
from deploy.aws.policies import MIGRATION
from foundation.kernel.events import MESSAGES_PERSISTED, TOPICS
from foundation.stores.kafka import reader
from staff.services import engines
from tests.templates import ACCOUNT, CLUSTER, KAFKA, PARTITION, PREFIX, REGION, TABLES, Policies, data_template

MOST_CHARACTERS = 6_144
"""Of a managed policy."""
UUID = "6a4b2c1d-0000-4000-8000-000000000000-5"
ON_CLUSTER = f"{KAFKA}:cluster/{CLUSTER}/{UUID}"
ON_TOPIC = f"{KAFKA}:topic/{CLUSTER}/{UUID}/{MESSAGES_PERSISTED}"
ON_FANOUT = f"{KAFKA}:group/{CLUSTER}/{UUID}/{engines.GROUP}"
ON_READER = f"{KAFKA}:group/{CLUSTER}/{UUID}/{reader.GROUP}"


def kafka(process: str) -> Policies:
    return Policies(f"{process}KafkaPolicy")


@pytest.mark.parametrize("name", [name for name in data_template()["Resources"] if name.endswith("Policy")])
def test_a_policy_is_as_short_as_aws_wants_it(name: str) -> None:
    if data_template()["Resources"][name]["Type"] == "AWS::IAM::ManagedPolicy":
        assert Policies(name).size < MOST_CHARACTERS


class TestSms:
    def test_web_sends_to_phone_numbers_and_to_no_topic(self) -> None:
        web = Policies("WebPolicy")
        assert web.allow("sns:Publish", "*")
        assert not web.allow("sns:Publish", f"arn:{PARTITION}:sns:{REGION}:{ACCOUNT}:parley-data-AlarmTopic")


class TestRestoredTables:
    """The runbook of a restore starts the processes on them."""

    @pytest.mark.parametrize(
        ("policy", "action"),
        [
            ("WebPolicy", "PutItem"),
            ("FanoutPolicy", "Query"),
            ("WatchPolicy", "Query"),
            ("StaffPolicy", "Scan"),
            ("MigratorPolicy", "UpdateTimeToLive"),
        ],
    )
    def test_they_are_reached_as_the_others(self, policy: str, action: str) -> None:
        for prefix in (PREFIX, f"restored_{PREFIX}"):
            assert Policies(policy).allow(f"dynamodb:{action}", f"{TABLES}/{prefix}chat_memberships")
        assert not Policies(policy).allow(f"dynamodb:{action}", f"{TABLES}/other_chat_memberships")

    def test_the_migrator_makes_and_changes_no_table_but_these(self) -> None:
        """Also without a prefix, which would otherwise name every table of the account."""
        for action in MIGRATION:
            for prefix in (PREFIX, f"restored_{PREFIX}"):
                assert not Policies("MigratorPolicy").allow(f"dynamodb:{action}", f"{TABLES}/{prefix}invoices")

    def test_so_are_their_indexes(self) -> None:
        for prefix in (PREFIX, f"restored_{PREFIX}"):
            index = f"{TABLES}/{prefix}chat_memberships/index/user_chats-index"
            assert Policies("WebPolicy").allow("dynamodb:Query", index)

    def test_fanout_writes_to_none_of_them(self) -> None:
        assert not Policies("FanoutPolicy").allow("dynamodb:PutItem", f"{TABLES}/restored_{PREFIX}messages")


class TestKafka:
    @pytest.mark.parametrize("use", KafkaUse)
    def test_a_use_is_that_of_a_client_that_exists(self, use: KafkaUse) -> None:
        part: Any = foundation.stores.kafka
        for name in use.value.split("."):
            part = getattr(part, name)

    @pytest.mark.parametrize("process", USES)
    def test_everybody_finds_the_cluster_and_its_topics_before_and_after_it_is_made_anew(self, process: str) -> None:
        for uuid in (UUID, "another"):
            assert kafka(process).allow("kafka-cluster:Connect", f"{KAFKA}:cluster/{CLUSTER}/{uuid}")
            for topic in TOPICS:
                assert kafka(process).allow("kafka-cluster:DescribeTopic", f"{KAFKA}:topic/{CLUSTER}/{uuid}/{topic}")
        assert not kafka(process).allow("kafka-cluster:Connect", f"{KAFKA}:cluster/another/{UUID}")

    @pytest.mark.parametrize("process", ["Web", "Watch", "Staff", "Fanout"])
    def test_whoever_asks_how_long_a_topic_is_kept_may(self, process: str) -> None:
        """The pages and the watch for `reconcile`, staff and the fanout for `check_deploy`."""
        assert kafka(process).allow("kafka-cluster:DescribeTopicDynamicConfiguration", ON_TOPIC)

    def test_the_pages_of_staff_see_the_lag_and_compare_chats_with_the_log(self) -> None:
        for process in ("Web", "Staff"):
            assert kafka(process).allow("kafka-cluster:DescribeGroup", ON_FANOUT)
            assert kafka(process).allow("kafka-cluster:ReadData", ON_TOPIC)
            assert kafka(process).allow("kafka-cluster:DescribeGroup", ON_READER)

    def test_web_the_watch_and_staff_publish(self) -> None:
        publishing = {name for name in USES if kafka(name).allow("kafka-cluster:WriteData", ON_TOPIC)}
        assert publishing == {"Web", "Watch", "Staff"}
        assert publishing == {n for n in USES if kafka(n).allow("kafka-cluster:WriteDataIdempotently", ON_CLUSTER)}

    def test_only_fanout_and_staff_move_the_offsets_of_a_group(self) -> None:
        assert {n for n in USES if kafka(n).allow("kafka-cluster:AlterGroup", ON_FANOUT)} == {"Fanout", "Staff"}

    def test_only_the_migrator_creates_topics(self) -> None:
        assert {n for n in USES if kafka(n).allow("kafka-cluster:CreateTopic", ON_TOPIC)} == {"Migrator"}
