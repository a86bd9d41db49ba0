"""Which SMS sender the settings choose."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from accounts.services.sms import CodeMessage, FileSmsSender, SnsSmsSender
from config.wiring.clients import Clients


def test_a_laptop_writes_codes_into_its_data_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with override_settings(SMS_BACKEND="file", DATA_DIR=tmp_path):
        sender = Clients().sms
    assert isinstance(sender, FileSmsSender)
    sender.send(CodeMessage(to="+14155550123", code="123456", body="123456 is your Parley code."))
    assert (tmp_path / "sms.jsonl").read_text().count('"code":"123456"') == 1
    assert "123456 is your Parley code." in capsys.readouterr().out


def test_aws_sends_through_sns() -> None:
    with override_settings(SMS_BACKEND="sns"):
        assert isinstance(Clients().sms, SnsSmsSender)


def test_anything_else_is_named_as_a_mistake() -> None:
    with override_settings(SMS_BACKEND="pigeon"), pytest.raises(ImproperlyConfigured, match="pigeon"):
        _ = Clients().sms
