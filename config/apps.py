from django.apps import AppConfig


class ParleyConfig(AppConfig):
    """Makes the commands in `config/management` known to manage.py."""

    name = "config"
