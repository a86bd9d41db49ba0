"""The Django project: settings, URLs, ASGI, the wiring of the apps, and the entry points of `manage.py`.

The only package that knows all apps. Contains no logic of its own.
"""
