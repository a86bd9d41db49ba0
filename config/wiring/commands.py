"""What the operators' commands need: the tables of all apps and the engines' clients."""

from functools import cache

import accounts.stores
import chats.stores
import delivery.stores
import messaging.stores
from config.wiring.clients import Clients

TABLES = (
    *accounts.stores.TABLES,
    *chats.stores.TABLES,
    *messaging.stores.TABLES,
    *delivery.stores.TABLES,
)


@cache
def clients() -> Clients:
    """This process's clients."""
    return Clients()
