"""Not repeated on DynamoDB Local, which loses its last transactions when it ends (docs/engines.md)."""

import asyncio

from tests.e2e.drills.runbook import Runbook
from tests.e2e.sockets import opened
from tests.e2e.system import System


async def test_dynamodb_is_unreachable(drilled: System) -> None:
    ada, bob = drilled.users(2)
    chat = drilled.direct_chat(ada, bob)
    book = Runbook("dynamodb-outage", drilled.environment)
    async with opened(drilled.webs[0], ada) as sending:
        await sending.send(chat, "before")
        drilled.dynamodb.kill()
        (checked,) = await asyncio.to_thread(book.run, "Check")
        assert checked.code == 2
        assert "DynamoDB" in checked.output
        drilled.dynamodb.start()
        drilled.dynamodb.wait_until_ready()
        assert (await sending.send(chat, "after"))["sequence"] == 2
    assert [outcome.code for outcome in book.run("Over when")] == [0, 0]
