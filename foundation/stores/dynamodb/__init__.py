"""DynamoDB: the only source of truth.

An app declares its access patterns beside its store (`patterns`) and runs them through a `Database`, which knows
retries, limits and consistency. The connection below counts every request, names every failure and, in a read-only
process, refuses to write before anything leaves.
"""

from foundation.stores.dynamodb.connection import DynamoDBOptions
from foundation.stores.dynamodb.database import Database, Key, Page, Write
from foundation.stores.dynamodb.patterns import AccessPattern, Consistency, Operation

__all__ = ["AccessPattern", "Consistency", "Database", "DynamoDBOptions", "Key", "Operation", "Page", "Write"]
