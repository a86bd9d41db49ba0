from typing import Any

from django.db import migrations

from staff.permissions import GROUPS, NAMES


def create_groups(apps: Any, schema_editor: Any) -> None:
    """Django itself creates permissions only after the last migration, too late for groups of this one."""
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="staff", model="staff"
    )
    created = {
        codename: apps.get_model("auth", "Permission").objects.get_or_create(
            content_type=content_type, codename=codename, defaults={"name": name}
        )[0]
        for codename, name in NAMES.items()
    }
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.set([created[codename] for codename in codenames])


class Migration(migrations.Migration):
    dependencies = [
        ("staff", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(create_groups, migrations.RunPython.noop)]
