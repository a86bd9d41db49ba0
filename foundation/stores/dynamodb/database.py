"""The access patterns for worker threads: each call runs on the service loop while the thread waits."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from foundation.kernel.loops import ServiceLoop, shared_loop
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb.async_database import AsyncDatabase, Tables
from foundation.stores.dynamodb.wire import DynamoDBOptions

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[AsyncDatabase, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Database, P], T]":
    def call(self: "Database", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.loop.run(method(self.on_loop, *args, **kwargs))

    return call


class Database(Tables):
    """Blocking and thread-safe. `on_loop` is the same database for coroutines on `loop`."""

    def __init__(
        self,
        options: DynamoDBOptions,
        *,
        read_only: bool = False,
        retry: RetryPolicy | None = None,
        loop: ServiceLoop | None = None,
    ) -> None:
        super().__init__(options.table_prefix)
        self.loop = loop or shared_loop()
        self.on_loop = AsyncDatabase(options, read_only=read_only, retry=retry)

    call = _blocking(AsyncDatabase.call)
    get = _blocking(AsyncDatabase.get)
    query = _blocking(AsyncDatabase.query)
    query_all = _blocking(AsyncDatabase.query_all)
    count = _blocking(AsyncDatabase.count)
    scan = _blocking(AsyncDatabase.scan)
    batch_get = _blocking(AsyncDatabase.batch_get)
    put = _blocking(AsyncDatabase.put)
    update = _blocking(AsyncDatabase.update)
    delete = _blocking(AsyncDatabase.delete)
    batch_put = _blocking(AsyncDatabase.batch_put)
    batch_delete = _blocking(AsyncDatabase.batch_delete)
    transact = _blocking(AsyncDatabase.transact)
