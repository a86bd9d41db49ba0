"""The tables of `messaging` behind methods: one class per table, each access pattern stated once, as data."""

from messaging.models import IdempotencyKeyModel, MessageModel

TABLES = (MessageModel, IdempotencyKeyModel)
