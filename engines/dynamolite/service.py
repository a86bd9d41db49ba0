"""Requests in, answers out: which operations there are, and what of them is one transaction of the store."""

import dataclasses
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engines.dynamolite.creation import described, expiry_of
from engines.dynamolite.errors import (
    IdempotentParameterMismatchException,
    InternalServerError,
    Refusal,
    ResourceInUseException,
    SerializationException,
    UnknownOperationException,
    ValidationException,
)
from engines.dynamolite.reading import Reads
from engines.dynamolite.requests import Decision, Operation, Request, count_of, find_shelf, require_name
from engines.dynamolite.rows import Store
from engines.dynamolite.writing import Writes

logger = logging.getLogger(__name__)

TOKEN_SECONDS = 600.0
TOKEN_LETTERS = 36
TABLES_A_PAGE = 100
# What goes wrong while a request is read whose JSON is not of the form that its operation has.
MALFORMED = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Answered:
    """What goes back to a caller."""

    status: int
    body: bytes


class Service:
    """DynamoDB's operations on one store. For one thread."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._tokens = Tokens(clock)
        self._operations: Mapping[str, Operation] = {
            "CreateTable": self._create_table,
            "DeleteTable": self._delete_table,
            "DescribeTable": self._describe_table,
            "DescribeTimeToLive": self._describe_time_to_live,
            "ListTables": self._list_tables,
            "UpdateTimeToLive": self._update_time_to_live,
            **Reads(store).operations,
            **Writes(store).operations,
        }

    def answer_all(self, asked: Sequence[tuple[str, bytes]]) -> list[Answered]:
        """Carry out requests in their order, in one transaction of the store, and answer when it is on disk."""
        try:
            with self._store.transaction():
                answers = [self._answer(operation, body) for operation, body in asked]
        except Exception:
            # The disk is full or broken, or this program is: none of these requests has happened.
            logger.exception("A group of %d requests was taken back", len(asked))
            self._tokens.forget_new()
            return [_refused(InternalServerError("The store could not carry out the request"))] * len(asked)
        self._tokens.keep_new()
        return answers

    def settle(self) -> None:
        """Do what has been put off."""
        self._store.settle()

    def sweep(self) -> int:
        """Delete some of what has expired; return how many items that were."""
        with self._store.transaction():
            return self._store.sweep(self._clock())

    def _answer(self, operation: str, body: bytes) -> Answered:
        """What a request is answered. Nothing is written before all of it has been read and decided."""
        try:
            decide = self._operations.get(operation)
            if decide is None:
                raise UnknownOperationException(f"{operation or 'A request without X-Amz-Target'} is not offered here")
            request = _read(body)
            token = request.get("ClientRequestToken") if operation == "TransactWriteItems" else None
            if token is not None and self._tokens.is_repeated(token, body):
                return Answered(200, b"{}")
            answer, writes = decide(request)
            answered = Answered(200, orjson.dumps(answer))
        except Refusal as refusal:
            return _refused(refusal)
        except MALFORMED as error:
            logger.warning("A request of %s cannot be read", operation, exc_info=True)
            return _refused(SerializationException(f"The request cannot be read: {type(error).__name__} {error}"))
        for write in writes:
            write()
        if token is not None:
            self._tokens.note(token, body)
        return answered

    # Tables

    def _create_table(self, request: Request) -> Decision:
        table = described(request)
        if self._store.find(table.name) is not None:
            raise ResourceInUseException(f"Table already exists: {table.name}")
        return {"TableDescription": table.answer()}, [lambda: self._store.create(table)]

    def _delete_table(self, request: Request) -> Decision:
        table = find_shelf(self._store, request).table
        return {"TableDescription": table.answer(status="DELETING")}, [lambda: self._store.drop(table.name)]

    def _describe_table(self, request: Request) -> Decision:
        return {"Table": find_shelf(self._store, request).table.answer()}, ()

    def _list_tables(self, request: Request) -> Decision:
        limit = count_of(request, "Limit", most=TABLES_A_PAGE) or TABLES_A_PAGE
        start = request.get("ExclusiveStartTableName")
        after = "" if start is None else require_name(start)
        names = [name for name in self._store.names if name > after]
        more = {"LastEvaluatedTableName": names[limit - 1]} if len(names) > limit else {}
        return {"TableNames": names[:limit], **more}, ()

    def _describe_time_to_live(self, request: Request) -> Decision:
        expiry = find_shelf(self._store, request).table.expiry
        state = {"TimeToLiveStatus": "ENABLED", "AttributeName": expiry} if expiry else {"TimeToLiveStatus": "DISABLED"}
        return {"TimeToLiveDescription": state}, ()

    def _update_time_to_live(self, request: Request) -> Decision:
        table = find_shelf(self._store, request).table
        changed = dataclasses.replace(table, expiry=expiry_of(request, table.expiry))
        answer = {"TimeToLiveSpecification": request["TimeToLiveSpecification"]}
        return answer, [lambda: self._store.replace(changed).note_expiry()]


class Tokens:
    """What became of transactions' tokens: a repetition is answered, not carried out again.

    They are in memory, and forgotten with the process.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._new: list[str] = []

    def is_repeated(self, token: Any, body: bytes) -> bool:
        if type(token) is not str or not 1 <= len(token) <= TOKEN_LETTERS:
            raise ValidationException(f"ClientRequestToken must have 1 to {TOKEN_LETTERS} characters")
        forgotten = self._clock() - TOKEN_SECONDS
        while self._used and next(iter(self._used.values()))[0] < forgotten:
            self._used.popitem(last=False)
        if token not in self._used:
            return False
        if self._used[token][1] != _digest(body):
            raise IdempotentParameterMismatchException("The same token came with another request")
        return True

    def note(self, token: str, body: bytes) -> None:
        self._used[token] = (self._clock(), _digest(body))
        self._new.append(token)

    def keep_new(self) -> None:
        self._new.clear()

    def forget_new(self) -> None:
        """Forget the tokens of transactions that were taken back."""
        for token in self._new:
            self._used.pop(token, None)
        self._new.clear()


def _read(body: bytes) -> Request:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SerializationException(f"The request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise SerializationException("A request is a JSON object")
    return request


def _refused(refusal: Refusal) -> Answered:
    return Answered(refusal.status, orjson.dumps(refusal.details()))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()
