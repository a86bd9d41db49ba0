"""Joins the apps: each assembles its own parts (`parts.py`); this package decides which settings and clients they get.

The processes are `web`, which `server` serves, and `fanout`; `demo` is for embedded runs. `staff` is for staff's pages
and commands, `recovery` for repairs, `commands` for the others, `deploy_check` and `deployment` for deployments. All
use `clients`.
"""
