"""`/admin/auth/user/`: staff accounts, for superusers alone. Every change asks for a reason and is recorded."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from foundation.kernel.errors import Invalid
from staff.services.audit_log import MAX_REASON_LENGTH, Act, record

if TYPE_CHECKING:  # the site imports the pages
    from staff.pages.site import StaffSite

MANAGING = ("is_active", "is_staff", "is_superuser")
"""What an account needs, all of it, to manage staff accounts."""
RIGHTS = (*MANAGING, "groups", "user_permissions")
REASON: tuple[str, Any] = ("Audit log", {"fields": ("reason",)})
LAST_SUPERUSER = (
    "This is the last active superuser: without it, nobody could manage staff accounts. "
    "Make another account an active superuser with staff status first."
)


class WithReason(forms.Form):
    """Asks why. The reason is no field of the account and does not count as a change of it."""

    reason = forms.CharField(max_length=MAX_REASON_LENGTH, widget=forms.TextInput(attrs={"size": 60}))

    @property
    def changed_data(self) -> list[str]:
        return [name for name in super().changed_data if name != "reason"]


class AccountForm(WithReason, UserChangeForm):  # type: ignore[type-arg]
    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not all(cleaned.get(name) for name in MANAGING) and is_last_superuser(self.instance):
            raise ValidationError(LAST_SUPERUSER)
        return cleaned


class NewAccountForm(WithReason, UserCreationForm):  # type: ignore[type-arg]
    pass


class PasswordForm(WithReason, AdminPasswordChangeForm):  # type: ignore[type-arg]
    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not cleaned["set_usable_password"] and is_last_superuser(self.user):
            raise ValidationError({"usable_password": LAST_SUPERUSER})
        return cleaned


class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """The name of an account never changes: the audit log knows accounts by their names."""

    admin_site: "StaffSite"
    form = AccountForm
    add_form = NewAccountForm
    change_password_form = PasswordForm
    add_form_template = None
    change_user_password_template = "staff/account_password.html"  # noqa: S105
    delete_confirmation_template = "staff/account_delete.html"
    actions = None
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    fieldsets = (
        (None, {"fields": ("username", "password", "first_name", "last_name", "email")}),
        ("Rights", {"fields": RIGHTS}),
        REASON,
    )
    add_fieldsets = (
        (None, {"fields": ("username", "password1", "password2")}),
        ("Rights", {"fields": ("is_staff", "groups")}),
        REASON,
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_view_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return _is_superuser(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return _is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return _is_superuser(request)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return ("username",) if obj else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"is_staff": True, **super().get_changeform_initial_data(request)}

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "user_permissions":
            kwargs["queryset"] = db_field.remote_field.model.objects.filter(
                content_type__app_label="staff"
            ).select_related("content_type")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        return super().user_change_password(request, id, form_url)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except Invalid as error:
            messages.error(request, error.detail)
            return redirect(request.get_full_path())

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        if is_last_superuser(obj):
            raise Invalid(LAST_SUPERUSER)
        super().delete_model(request, obj)

    # Django calls these in the transaction of the change: neither is stored without the other.
    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> Any:
        self._record(request, "create_account", obj, _rights_of(obj))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: User, message: Any) -> Any:
        changed = [name for part in message for name in part.get("changed", {}).get("fields", [])]
        self._record(request, "change_account", obj, {"changed": ", ".join(changed), **_rights_of(obj)})
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[User]) -> Any:
        for account in queryset:
            self._record(request, "delete_account", account, _rights_of(account))
        return super().log_deletions(request, queryset)

    def _record(self, request: HttpRequest, action: str, account: User, details: dict[str, Any]) -> None:
        reason = request.POST.get("reason", "")
        record(Act(self.admin_site.actor_of(request), action, account.get_username(), reason, details))


def is_last_superuser(account: User) -> bool:
    """Whether nobody else could log in and manage staff accounts.

    Call it in the transaction of the change: it locks the superusers, so that two cannot close each other's accounts.
    """
    superusers = User.objects.select_for_update().filter(**dict.fromkeys(MANAGING, True)).order_by("pk")
    return [each.pk for each in superusers if each.has_usable_password()] == [account.pk]


def _is_superuser(request: HttpRequest) -> bool:
    return request.user.is_active and request.user.is_superuser


def _rights_of(account: User) -> dict[str, Any]:
    """What the account may do now."""
    return {
        "active": account.is_active,
        "staff": account.is_staff,
        "superuser": account.is_superuser,
        "groups": ", ".join(group.name for group in account.groups.order_by("name")),
        "permissions": ", ".join(held.codename for held in account.user_permissions.order_by("codename")),
    }
