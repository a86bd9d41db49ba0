"""The audit log, and the groups that the migrations make."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command

from foundation.kernel.errors import Conflict, Invalid
from staff.models import AuditRecord
from staff.permissions import GROUPS
from staff.services.audit_log import Act, Actor, command_actor, list_records, record, recorded
from tests.doubles import SettableClock

pytestmark = pytest.mark.django_db

ACTOR = Actor(name="grace", source="192.0.2.1")
ACT = Act(ACTOR, action="suspend", target="user_1", reason="spam", details={"ticket": 7})


class TestRecord:
    def test_it_says_who_when_what_on_whom_why_and_from_where(self) -> None:
        clock = SettableClock()
        record(ACT, clock=clock)
        found = AuditRecord.objects.get()
        assert (found.actor, found.at, found.action, found.target, found.reason, found.source, found.details) == (
            "grace",
            clock.now(),
            "suspend",
            "user_1",
            "spam",
            "192.0.2.1",
            {"ticket": 7},
        )

    def test_nul_which_postgresql_refuses_is_left_out(self) -> None:
        record(Act(ACTOR, "drain", "gw\0", "sp\0am", {"session_id": "\0sess"}))
        found = AuditRecord.objects.get()
        assert (found.target, found.reason, found.details) == ("gw", "spam", {"session_id": "sess"})
        assert list_records(about="g\0w", limit=1) == [found]

    @pytest.mark.parametrize("reason", ["", "  \n", "\0", "x" * 1001])
    def test_without_a_usable_reason_nothing_is_done(self, reason: str) -> None:
        done = False
        with pytest.raises(Invalid), recorded(Act(ACTOR, "suspend", "user_1", reason)):
            done = True
        assert not done
        assert not AuditRecord.objects.exists()

    @pytest.mark.parametrize(("error", "name"), [(Conflict(), "conflict"), (TimeoutError(), "TimeoutError")])
    def test_an_act_that_fails_is_recorded_as_such(self, error: Exception, name: str) -> None:
        with pytest.raises(type(error)), recorded(ACT):
            raise error
        failed, begun = AuditRecord.objects.all()
        assert (begun.action, failed.action) == ("suspend", "suspend_failed")
        assert failed.details == {"ticket": 7, "error": name}

    def test_a_command_acts_for_the_user_of_the_machine_unless_it_is_told_a_name(self) -> None:
        assert command_actor().name.startswith("os:")
        assert command_actor("grace").name == "grace"


class TestMigrations:
    def test_each_group_has_its_permissions(self) -> None:
        found = {group.name: set(group.permissions.values_list("codename", flat=True)) for group in Group.objects.all()}
        assert found == {name: set(codenames) for name, codenames in GROUPS.items()}

    def test_no_model_has_changed_without_a_migration(self) -> None:
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
