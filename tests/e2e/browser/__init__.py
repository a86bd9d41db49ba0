"""The web client in a real browser, against the running system."""
