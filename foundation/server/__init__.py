"""The `web` process under daphne: limits, sockets, shutdown. `health` is the endpoint of the other processes.

Private parts of libraries: `autobahn` and `twisted` use them for speed, with a switch; `http`, `sockets` and `daphne`
for limits and shutdown, without one, because switching protection off would remove it (ADR-017).
"""
