"""One module per command of `manage.py`, named after it."""
