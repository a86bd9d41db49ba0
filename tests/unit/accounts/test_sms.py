"""The senders: a file on a laptop, SNS on AWS."""

import io
import json
import logging
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sns.models import sns_backends

from accounts.errors import SmsUnavailable
from accounts.services.sms import BoundedSmsSender, CodeMessage, FileSmsSender, SnsSmsSender
from tests.doubles import SettableClock

MESSAGE = CodeMessage(to="+14155550123", code="123456", body="123456 is your Parley code.")


class TestBounded:
    def test_while_a_provider_hangs_a_few_messages_wait_and_the_others_are_refused_at_once(self) -> None:
        hanging, begun = threading.Event(), threading.Barrier(3)

        class Hanging:
            def send(self, message: CodeMessage) -> None:
                begun.wait(10)
                hanging.wait(10)

        sender = BoundedSmsSender(Hanging(), at_once=2)
        with ThreadPoolExecutor(2) as pool:
            sending = [pool.submit(sender.send, MESSAGE) for _ in range(2)]
            begun.wait(10)
            with pytest.raises(SmsUnavailable) as refusal:
                sender.send(MESSAGE)
            assert refusal.value.retry_after
            hanging.set()
            for each in sending:
                each.result(10)

    def test_a_message_that_fails_makes_room_for_the_next(self) -> None:
        sender = BoundedSmsSender(Mock(send=Mock(side_effect=[SmsUnavailable, None])), at_once=1)
        with pytest.raises(SmsUnavailable):
            sender.send(MESSAGE)
        sender.send(MESSAGE)


class TestFile:
    def test_each_message_is_a_line_of_the_file_and_of_the_output(self, tmp_path: Path) -> None:
        path, output = tmp_path / "data" / "sms.jsonl", io.StringIO()
        sender = FileSmsSender(path, clock=SettableClock(), output=output)
        sender.send(MESSAGE)
        sender.send(MESSAGE)
        expected = {
            "to": "+14155550123",
            "body": "123456 is your Parley code.",
            "code": "123456",
            "at": "2035-01-30T14:30:00.000Z",
        }
        assert [json.loads(line) for line in path.read_text().splitlines()] == [expected, expected]
        assert output.getvalue().count("SMS to +14155550123: 123456 is your Parley code.\n") == 2

    def test_only_its_owner_reads_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "sms.jsonl"
        FileSmsSender(path, clock=SettableClock(), output=io.StringIO()).send(MESSAGE)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_lines_of_many_threads_do_not_mix(self, tmp_path: Path) -> None:
        path = tmp_path / "sms.jsonl"
        senders = [FileSmsSender(path, clock=SettableClock(), output=io.StringIO()) for _ in range(4)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: senders[number % 4].send(MESSAGE), range(200)))
        assert [json.loads(line)["code"] for line in path.read_text().splitlines()] == ["123456"] * 200

    def test_a_file_that_cannot_be_written_is_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "sms.jsonl").mkdir()
        with pytest.raises(SmsUnavailable):
            FileSmsSender(tmp_path / "sms.jsonl", clock=SettableClock(), output=io.StringIO()).send(MESSAGE)


class TestSns:
    def test_a_message_goes_to_its_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        with mock_aws():
            SnsSmsSender(boto3.client("sns", region_name="us-east-1")).send(MESSAGE)
            sent = sns_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].sms_messages
            assert list(sent.values()) == [(MESSAGE.to, MESSAGE.body)]

    def test_a_failure_is_unavailable_and_logged_without_the_number(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        caplog.set_level(logging.INFO)
        quick = Config(connect_timeout=0.2, read_timeout=0.2, retries={"total_max_attempts": 1})
        client = boto3.client("sns", region_name="us-east-1", endpoint_url="http://127.0.0.1:1", config=quick)
        with pytest.raises(SmsUnavailable):
            SnsSmsSender(client).send(MESSAGE)
        assert "SNS did not take an SMS" in caplog.text
        assert MESSAGE.to not in caplog.text
        assert MESSAGE.code not in caplog.text
