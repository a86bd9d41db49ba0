"""The restore, on moto: the embedded DynamoDB and DynamoDB Local have no point-in-time recovery."""

import os
from pathlib import Path

import boto3

from config.wiring.commands import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.dynamodb.table import ON_DEMAND
from foundation.stores.kafka import KafkaOptions
from foundation.stores.redis.client import RedisOptions, connect
from tests.e2e.drills.runbook import Runbook
from tests.engines.moto import MotoServer
from tests.integration.messaging.services import FakeProducer, Services
from tests.integration.staff.deployment import Deployment

NOWHERE = "127.0.0.1:9"


def bill_as_aws_does(command: str, url: str) -> None:
    """A table that AWS restores has the billing mode of its source, or that of the command; moto forgets both."""
    table = command.split("--target-table-name ")[1].split(maxsplit=1)[0]
    (model,) = [each for each in TABLES if f"restored_{each.Meta.table_name}" == table]
    if model.Meta.billing_mode == ON_DEMAND or f"--billing-mode-override {ON_DEMAND}" in command:
        client = boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1")
        client.update_table(TableName=table, BillingMode="PAY_PER_REQUEST")


def test_tables_are_restored_under_another_prefix(tmp_path: Path) -> None:
    with MotoServer() as url:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(tmp_path),
            "DYNAMODB_ENDPOINT_URL": url,
            "KAFKA_BOOTSTRAP_SERVERS": NOWHERE,
            "REDIS_URL": f"redis://{NOWHERE}/0",
        }
        database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=url))
        schema.create_missing(database, TABLES, report=lambda line: None)
        redis = connect(RedisOptions(url=environment["REDIS_URL"]))
        deployment = Deployment(database, FakeProducer(), KafkaOptions(bootstrap_servers=NOWHERE), redis)
        ann, bob = deployment.person(), deployment.person()
        chat = deployment.direct(ann.user_id, bob.user_id)
        deployment.send(chat, ann.user_id)
        deployment.close()
        book = Runbook("point-in-time-restore", environment)
        assert book.execute("python manage.py migrate --verbosity 0").code == 0
        for section in ("Check", "Commands", "Over when"):
            for command in book.commands(section):
                outcome = book.execute(command)
                assert outcome.code == 0, outcome
                if command.startswith("aws"):
                    bill_as_aws_does(command, url)
        restored = Database(DynamoDBOptions(region="us-east-1", endpoint_url=url, table_prefix="restored_"))
        # No restore brings the scaling of a provisioned table.
        found = [schema.live(restored, table) for table in TABLES]
        assert {table.billing_mode for table in found if table is not None} == {ON_DEMAND}
        copies = Services(restored, deployment.clock)
        assert [message.content for message in copies.stored(chat)] == ["hello"]
        copies.close()
