"""The tables of `chats` behind methods: one class per table, each access pattern stated once, as data."""

from chats.models import ChatModel, CounterModel, MembershipModel

TABLES = (ChatModel, MembershipModel, CounterModel)
