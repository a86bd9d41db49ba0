"""The fanout process is built around a client that cannot write."""

from unittest.mock import Mock

import pytest

from config.management.commands import fanout
from config.wiring import Wiring
from foundation.stores.errors import WriteRefused


def test_the_command_asks_for_read_only_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock()
    monkeypatch.setattr(fanout, "Wiring", made)
    monkeypatch.setattr(fanout.signal, "signal", Mock())  # type: ignore[attr-defined]
    fanout.Command().handle(metrics_port=0)
    made.assert_called_once_with(read_only=True)
    made.return_value.fanout_worker.run.assert_called_once()


def test_read_only_parts_refuse_to_write_before_anything_leaves_the_process() -> None:
    with pytest.raises(WriteRefused):
        Wiring(read_only=True).database.connection.dispatch("PutItem", {})
