"""The basic types: errors, ids, clock, cursors, event envelope, retry policy, service loop.

Imports no app, no store and no engine's client; everything here is pure and cheap to test.
"""
