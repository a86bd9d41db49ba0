"""The tables of `accounts` behind methods, one class per table, each access pattern stated once, as data.

Login codes live here too: in Redis, because they may be lost.
"""

from accounts.models import SessionModel, UserModel

TABLES = (UserModel, SessionModel)
