"""The tables of `delivery` behind methods: one class per table, each access pattern stated once, as data."""

from delivery.models import DeliveryStateModel

TABLES = (DeliveryStateModel,)
