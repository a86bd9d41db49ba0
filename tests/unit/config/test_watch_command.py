"""`reconcile --watch` is a service, and serves its health as fanout does."""

from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command

from foundation.commands import health
from staff.commands import reconcile
from staff.commands.reconcile import ReconcileCommand


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Mock:
    server = Mock()
    monkeypatch.setattr(health, "HealthServer", server)
    monkeypatch.setattr(reconcile.signal, "signal", Mock())  # type: ignore[attr-defined]
    return server


def command(services: Mock) -> ReconcileCommand:
    made = ReconcileCommand()
    made.services, made.log_start = services, Mock()
    return made


def test_the_watch_serves_its_health_on_loopback_unless_told_otherwise(server: Mock) -> None:
    made = Mock()
    call_command(command(made), "--watch", "--metrics-port", "9100")
    server.assert_called_once_with("127.0.0.1", 9100, made.return_value.probes)
    call_command(command(made), "--watch", "--metrics-port", "9100", "--metrics-host", "0.0.0.0")
    server.assert_called_with("0.0.0.0", 9100, made.return_value.probes)
    assert made.return_value.watcher.run.call_count == 2


def test_without_the_option_nothing_is_served(server: Mock) -> None:
    call_command(command(Mock()), "--watch")
    server.assert_not_called()


def test_a_command_that_ends_serves_nothing(server: Mock) -> None:
    made = Mock()
    with pytest.raises(CommandError, match="goes with --watch"):
        call_command(command(made), "--chat", "c", "--metrics-port", "9100")
    made.assert_not_called()
