"""The threads of views that block. asgiref's own would be one per request, or one for all."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")

API_THREADS = ThreadPoolExecutor(32, thread_name_prefix="api")
PAGE_THREADS = ThreadPoolExecutor(8, thread_name_prefix="page")
"""Pages, files and probes, which do not wait behind requests of the API."""


async def run_in_thread(executor: ThreadPoolExecutor, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return await sync_to_async(function, thread_sensitive=False, executor=executor)(*args, **kwargs)
