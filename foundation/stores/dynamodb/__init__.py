"""DynamoDB: the only source of truth.

An app declares its access patterns beside its store (`patterns`) and runs them through an `AsyncDatabase` on the event
loop or a `Database` in worker threads. Both send over one `Wire`, which measures every request, names every failure
and, in a read-only process, refuses to write.
"""

from foundation.stores.dynamodb.async_database import TRANSACTION_ITEMS, AsyncDatabase, BatchResult, Page, Tables, Write
from foundation.stores.dynamodb.database import Database
from foundation.stores.dynamodb.patterns import AccessPattern, Consistency, Operation
from foundation.stores.dynamodb.requests import Key
from foundation.stores.dynamodb.table import RawItem, plain
from foundation.stores.dynamodb.wire import DynamoDBOptions

__all__ = [
    "TRANSACTION_ITEMS",
    "AccessPattern",
    "AsyncDatabase",
    "BatchResult",
    "Consistency",
    "Database",
    "DynamoDBOptions",
    "Key",
    "Operation",
    "Page",
    "RawItem",
    "Tables",
    "Write",
    "plain",
]
