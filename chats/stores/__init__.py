"""Data access of chats: one class per table, each access pattern declared once.

A method named in the progressive form (`creating`) returns a write for a transaction. Stores never decide a rule.
"""

from chats.models import ChatModel, CounterModel, MembershipModel

TABLES = (ChatModel, MembershipModel, CounterModel)
