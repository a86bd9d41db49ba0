"""A peer on the same machine, played with the same workloads in turns: ejabberd with its archive in PostgreSQL.

Its clients are of the same cheap kind as Parley's and hold it to the same account. Its settings are its own defaults
but for limits, which are off: whatever makes it slower than it could be has no place here.
"""
