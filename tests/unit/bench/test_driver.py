import asyncio

import pytest

from bench.driver import wait_unless_failed
from bench.timeline import InvalidRun


class TestDriver:
    async def test_a_client_that_fails_ends_the_wait(self) -> None:
        async def fail() -> None:
            raise InvalidRun("at once")

        with pytest.raises(InvalidRun, match="at once"):
            await wait_unless_failed(asyncio.create_task(fail()), asyncio.sleep(60))
