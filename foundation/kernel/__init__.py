"""What every part of Parley speaks: errors, ids, time, cursors, events.

Imports no app, no store and no engine's client; everything here is pure and cheap to test.
"""
