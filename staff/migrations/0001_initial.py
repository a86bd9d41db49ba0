from django.db import migrations, models

from staff.permissions import NAMES


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("actor", models.CharField(db_index=True, max_length=150)),
                ("action", models.CharField(max_length=50)),
                ("target", models.CharField(db_index=True, max_length=150)),
                ("reason", models.TextField()),
                ("source", models.CharField(max_length=100)),
                ("details", models.JSONField(default=dict)),
            ],
            options={"ordering": ("-id",), "default_permissions": ()},
        ),
        migrations.CreateModel(
            name="Staff",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={"permissions": tuple(NAMES.items()), "managed": False, "default_permissions": ()},
        ),
    ]
