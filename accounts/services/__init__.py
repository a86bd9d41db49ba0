"""What accounts can do: log in, hold sessions, verify tokens, know users.

Services are synchronous, thread-safe and made by `config.wiring`; they know no edge.
"""
