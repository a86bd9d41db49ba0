"""Without DynamoDB nothing is accepted and nobody is turned away for good."""

from websockets.asyncio.client import connect

from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import Socket
from tests.e2e.system import System


async def test_killed_and_restarted_in_mid_traffic(fragile: System) -> None:
    device = fragile.user()
    async with Crowd(fragile) as crowd:
        await crowd.goes_on()
        fragile.dynamodb.kill()
        async with connect(fragile.webs[0].socket_url, additional_headers=device.headers) as connection:
            # Whether the token is good cannot be told: the client is to come again, not to log in again.
            assert await Socket(connection).closed_with() == 1012
        fragile.dynamodb.start()
        fragile.dynamodb.wait_until_ready()
        await crowd.goes_on()
        await crowd.converges()
