"""Data access of accounts: one class per table, each access pattern declared once, and login codes in Redis.

Stores never decide a rule; services do.
"""

from accounts.models import SessionModel, UserModel

TABLES = (UserModel, SessionModel)
