"""Joins the apps: one module per kind of process (`web`, `fanout`, `commands`), on the clients that `clients` makes.

Each app assembles its own parts (`parts.py`); this package only decides which settings and clients they get.
"""
