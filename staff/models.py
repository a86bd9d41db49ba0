"""The audit log, and the permissions of staff."""

from django.db import models

from staff import permissions


class AuditRecord(models.Model):
    """One act of staff. Written before the act, never changed, never deleted."""

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150, db_index=True)
    """A staff account's name, or `os:<user>` for a command."""
    action = models.CharField(max_length=50)
    target = models.CharField(max_length=150, db_index=True)
    """The id of whoever or whatever it was done to."""
    reason = models.TextField()
    source = models.CharField(max_length=100)
    """The address of the browser, or the host that ran the command."""
    details = models.JSONField(default=dict)

    class Meta:
        default_permissions = ()
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"


class Staff(models.Model):
    """Carries the permissions. Has no table."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = tuple(permissions.NAMES.items())

    def __str__(self) -> str:
        return "staff"
