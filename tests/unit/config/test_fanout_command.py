"""The fanout process is built around a client that cannot write, and serves its health on loopback."""

import asyncio
from concurrent.futures import wait
from unittest.mock import Mock

import pytest
from django.core.management import call_command

from config.wiring import fanout as wiring
from config.wiring.clients import Clients
from delivery import commands
from delivery.commands import FanoutCommand
from foundation.commands import health
from foundation.stores.errors import WriteRefused


def command(worker: Mock) -> FanoutCommand:
    made = FanoutCommand()
    made.worker, made.log_start = worker, Mock()
    return made


def test_the_worker_gets_read_only_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(side_effect=Clients)
    monkeypatch.setattr(wiring, "Clients", made)
    wiring.fanout()
    made.assert_called_once_with(read_only=True)


def test_the_command_runs_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands.signal, "signal", Mock())  # type: ignore[attr-defined]
    made = Mock()
    call_command(command(made))
    made.return_value.run.assert_called_once()


def test_the_command_serves_its_health_on_loopback_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = Mock(), Mock()
    monkeypatch.setattr(health, "HealthServer", server)
    monkeypatch.setattr(commands.signal, "signal", Mock())  # type: ignore[attr-defined]
    call_command(command(made), "--metrics-port", "9100")
    server.assert_called_once_with("127.0.0.1", 9100, made.return_value.probes)
    call_command(command(made), "--metrics-port", "9100", "--metrics-host", "0.0.0.0")
    server.assert_called_with("0.0.0.0", 9100, made.return_value.probes)


def test_the_members_of_many_chats_are_read_at_once_and_not_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    running, peak, enough = 0, 0, asyncio.Event()

    async def list_member_ids(chat_id: str) -> list[str]:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == wiring.CONCURRENT_READS:
            enough.set()
        await enough.wait()
        running -= 1
        return [chat_id]

    monkeypatch.setattr(wiring.chats.parts, "assemble_posting", lambda _: Mock(list_member_ids=list_member_ids))  # type: ignore[attr-defined]
    members = wiring.fanout().processor._members
    reads = [members._list_members(f"chat{number}") for number in range(100)]
    assert not wait(reads, timeout=10).not_done
    assert peak == wiring.CONCURRENT_READS


def test_read_only_clients_refuse_to_write_before_anything_leaves_the_process() -> None:
    with pytest.raises(WriteRefused):
        Clients(read_only=True).database.call("PutItem", {})
