"""The peer: ejabberd with its archive in PostgreSQL, measured with the same workloads on the same machine.

Its clients are as cheap as Parley's, and the same checks apply. Its settings are its defaults, with limits off.
"""
