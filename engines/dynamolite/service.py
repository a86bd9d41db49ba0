"""The operations of DynamoDB, and the batches of requests that share a transaction of the store."""

import dataclasses
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engines.dynamolite.creation import read_schema, read_ttl_attribute
from engines.dynamolite.errors import (
    DynamoDbError,
    IdempotentParameterMismatchException,
    InternalServerError,
    ResourceInUseException,
    SerializationException,
    UnknownOperationException,
    ValidationException,
)
from engines.dynamolite.reading import ReadOperations
from engines.dynamolite.requests import Operation, Request, Result, get_table, read_count, require_name
from engines.dynamolite.store import Store
from engines.dynamolite.writing import WriteOperations

logger = logging.getLogger(__name__)

TOKEN_TTL_SECONDS = 600.0
MAX_TOKEN_LENGTH = 36
MAX_TABLES_PER_PAGE = 100
# Raised while a request is read whose JSON does not have the expected form.
MALFORMED = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes


class Service:
    """DynamoDB's operations on one store. For one thread."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._tokens = IdempotencyTokens(clock)
        self._operations: Mapping[str, Operation] = {
            "CreateTable": self._create_table,
            "DeleteTable": self._delete_table,
            "DescribeTable": self._describe_table,
            "DescribeTimeToLive": self._describe_time_to_live,
            "ListTables": self._list_tables,
            "UpdateTimeToLive": self._update_time_to_live,
            **ReadOperations(store).operations,
            **WriteOperations(store).operations,
        }

    def handle_all(self, requests: Sequence[tuple[str, bytes]]) -> list[HttpResponse]:
        """Execute requests in order in one transaction of the store; return once it is on disk."""
        try:
            with self._store.transaction():
                responses = [self._handle(operation, body) for operation, body in requests]
        except Exception:
            # The disk is full or broken, or there is a bug: none of these requests takes effect.
            logger.exception("A batch of %d requests was rolled back", len(requests))
            self._tokens.rollback()
            return [_error(InternalServerError("The store could not execute the request"))] * len(requests)
        self._tokens.commit()
        return responses

    def checkpoint(self) -> None:
        """Commit the journal's records in SQLite."""
        self._store.checkpoint()

    def delete_expired(self) -> int:
        """Delete one batch of expired items; return their number."""
        with self._store.transaction():
            return self._store.delete_expired(self._clock())

    def _handle(self, operation: str, body: bytes) -> HttpResponse:
        """Execute a request. Nothing is written before the whole request has been validated."""
        try:
            operate = self._operations.get(operation)
            if operate is None:
                raise UnknownOperationException(f"{operation or 'A request without X-Amz-Target'} is not offered here")
            request = _parse(body)
            token = request.get("ClientRequestToken") if operation == "TransactWriteItems" else None
            if token is not None and self._tokens.is_known(token, body):
                return HttpResponse(200, b"{}")
            result, writes = operate(request)
            response = HttpResponse(200, orjson.dumps(result))
        except DynamoDbError as error:
            return _error(error)
        except MALFORMED as error:
            logger.warning("A request for %s is malformed", operation, exc_info=True)
            return _error(SerializationException(f"The request cannot be read: {type(error).__name__} {error}"))
        for write in writes:
            write()
        if token is not None:
            self._tokens.add(token, body)
        return response

    # Tables

    def _create_table(self, request: Request) -> Result:
        schema = read_schema(request)
        if self._store.find(schema.name) is not None:
            raise ResourceInUseException(f"Table already exists: {schema.name}")
        return {"TableDescription": schema.describe()}, [lambda: self._store.create(schema)]

    def _delete_table(self, request: Request) -> Result:
        schema = get_table(self._store, request).schema
        return {"TableDescription": schema.describe(status="DELETING")}, [lambda: self._store.drop(schema.name)]

    def _describe_table(self, request: Request) -> Result:
        return {"Table": get_table(self._store, request).schema.describe()}, ()

    def _list_tables(self, request: Request) -> Result:
        limit = read_count(request, "Limit", maximum=MAX_TABLES_PER_PAGE) or MAX_TABLES_PER_PAGE
        start = request.get("ExclusiveStartTableName")
        after = "" if start is None else require_name(start)
        names = [name for name in self._store.names if name > after]
        more = {"LastEvaluatedTableName": names[limit - 1]} if len(names) > limit else {}
        return {"TableNames": names[:limit], **more}, ()

    def _describe_time_to_live(self, request: Request) -> Result:
        name = get_table(self._store, request).schema.ttl_attribute
        state = {"TimeToLiveStatus": "ENABLED", "AttributeName": name} if name else {"TimeToLiveStatus": "DISABLED"}
        return {"TimeToLiveDescription": state}, ()

    def _update_time_to_live(self, request: Request) -> Result:
        schema = get_table(self._store, request).schema
        changed = dataclasses.replace(schema, ttl_attribute=read_ttl_attribute(request, schema.ttl_attribute))
        response = {"TimeToLiveSpecification": request["TimeToLiveSpecification"]}
        return response, [lambda: self._store.replace(changed).update_expiry()]


class IdempotencyTokens:
    """The tokens of executed transactions: a retry gets a response and is not executed again.

    They are in memory only.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._uncommitted: list[str] = []

    def is_known(self, token: Any, body: bytes) -> bool:
        if type(token) is not str or not 1 <= len(token) <= MAX_TOKEN_LENGTH:
            raise ValidationException(f"ClientRequestToken must have 1 to {MAX_TOKEN_LENGTH} characters")
        expired = self._clock() - TOKEN_TTL_SECONDS
        while self._tokens and next(iter(self._tokens.values()))[0] < expired:
            self._tokens.popitem(last=False)
        if token not in self._tokens:
            return False
        if self._tokens[token][1] != _digest(body):
            raise IdempotentParameterMismatchException("The same token came with another request")
        return True

    def add(self, token: str, body: bytes) -> None:
        self._tokens[token] = (self._clock(), _digest(body))
        self._uncommitted.append(token)

    def commit(self) -> None:
        self._uncommitted.clear()

    def rollback(self) -> None:
        for token in self._uncommitted:
            self._tokens.pop(token, None)
        self._uncommitted.clear()


def _parse(body: bytes) -> Request:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SerializationException(f"The request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise SerializationException("A request is a JSON object")
    return request


def _error(error: DynamoDbError) -> HttpResponse:
    return HttpResponse(error.status, orjson.dumps(error.body()))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()
