"""The second factor of staff accounts: one key for one authenticator app."""

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django_otp.plugins.otp_totp.models import TOTPDevice

from foundation.kernel.errors import NotFound
from staff.services.audit_log import Act, Actor, record


class NoSuchAccount(NotFound):
    """There is no staff account of this name."""

    title = "There is no staff account of this name"


@transaction.atomic
def enrol(username: str, *, by: Actor, anew: bool = False) -> str:
    """Return the address of the account's key. `anew` replaces the key. Raises `NoSuchAccount`."""
    user = get_user_model().objects.filter(username=username, is_staff=True).first()
    if user is None:
        raise NoSuchAccount
    record(Act(by, "enrol_device", username, "replaced by command" if anew else "shown by command"))
    devices = TOTPDevice.objects.filter(user=user)
    if anew:
        devices.delete()
    device = devices.filter(confirmed=True).first()
    if device is None:
        devices.delete()
        device = TOTPDevice.objects.create(user=user, name="app", confirmed=True)
    return str(device.config_url)


def pending_device(user: User) -> TOTPDevice:
    """The key that a page shows to an account without a device, until a code confirms it."""
    # No constraint forbids a second one, which two tabs at once have made: they must show the same.
    device = TOTPDevice.objects.filter(user=user, confirmed=False).order_by("pk").first()
    return device or TOTPDevice.objects.create(user=user, confirmed=False, name="app")


def confirm(device: TOTPDevice, token: str, *, by: Actor) -> bool:
    """Accept a pending key if the code is its current one."""
    if not device.verify_token(token):
        return False
    record(Act(by, "enrol_device", by.name, "confirmed by a code"))
    device.confirmed = True
    device.save()
    TOTPDevice.objects.filter(user=device.user, confirmed=False).delete()
    return True
