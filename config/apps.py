from django.apps import AppConfig


class ParleyConfig(AppConfig):
    """Makes the operators' commands in `config/management` known to manage.py."""

    name = "config"
