"""One module per command of `manage.py`, named after it: it binds a command of an app to the wiring."""
