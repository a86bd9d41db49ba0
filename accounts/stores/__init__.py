"""The tables of `accounts` behind methods: one class per table, each access pattern stated once, as data."""

from accounts.models import SessionModel, UserModel

TABLES = (UserModel, SessionModel)
