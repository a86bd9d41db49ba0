"""The fanout process is built around a client that cannot write."""

from unittest.mock import Mock

import pytest

from config.management.commands import fanout
from config.wiring import fanout as wiring
from config.wiring.clients import Clients
from foundation.stores.errors import WriteRefused


def test_the_worker_gets_read_only_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(side_effect=Clients)
    monkeypatch.setattr(wiring, "Clients", made)
    wiring.fanout()
    made.assert_called_once_with(read_only=True)


def test_the_command_runs_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock()
    monkeypatch.setattr(fanout, "fanout", made)
    monkeypatch.setattr(fanout.signal, "signal", Mock())  # type: ignore[attr-defined]
    fanout.Command().handle(metrics_port=0, metrics_host="127.0.0.1")
    made.return_value.run.assert_called_once()


def test_read_only_clients_refuse_to_write_before_anything_leaves_the_process() -> None:
    with pytest.raises(WriteRefused):
        Clients(read_only=True).database.call("PutItem", {})
