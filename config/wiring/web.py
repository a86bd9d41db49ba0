"""The parts of a `web` process: every app, the gateway, the probes."""

import asyncio
import secrets
from functools import cache

from channels.layers import get_channel_layer
from django.conf import settings

import accounts.parts
import chats.parts
import delivery.parts
import messaging.parts
from accounts.services.guard import LoginPolicy
from chats.api.views import INVITATIONS
from config.wiring.clients import Clients
from foundation.kernel.addresses import is_loopback
from foundation.rest.addresses import ClientAddress
from foundation.rest.health import EngineProbes
from foundation.rest.throttling import PUBLIC, READS, WRITES, PublicLimits, UserLimits
from foundation.stores.redis.control import ControlChannel
from foundation.stores.redis.limits import AsyncRateLimiter, FallbackRateLimiter, LeasingRateLimiter, Limit
from messaging.stores.messages import ChatCreationKeys


class Web:
    """Builds the apps bottom up, each on the services of those below it. Connects to nothing yet."""

    def __init__(self) -> None:
        clients = self.clients = Clients()
        gateway_id = f"gw-{secrets.token_hex(6)}"
        self.accounts = accounts.parts.assemble(
            accounts.parts.Engines(
                database=clients.database,
                redis=clients.redis,
                sms=clients.sms,
                notices=ControlChannel(get_channel_layer()),
            ),
            options=accounts.parts.AccountsOptions(
                secret=settings.SECRET_KEY,
                former_secrets=settings.SECRET_KEY_FALLBACKS,
                jwt_keys=settings.JWT_KEYS,
                loopback_is_free=settings.EMBEDDED,
                policy=LoginPolicy(
                    sms_per_country=settings.SMS_LIMIT_PER_COUNTRY, sms_in_total=settings.SMS_LIMIT_TOTAL
                ),
            ),
            clock=clients.clock,
            ids=clients.ids,
        )
        self.messaging = messaging.parts.assemble(
            clients.database,
            posting=chats.parts.assemble_posting(clients.database),
            producer=clients.producer,
            redis=clients.async_redis,
            options=messaging.parts.MessagingOptions(
                gateway_id=gateway_id,
                secret=settings.SECRET_KEY,
                former_secrets=settings.SECRET_KEY_FALLBACKS,
                send_rate=settings.SEND_RATE,
                send_burst=settings.SEND_BURST,
            ),
            cursors=clients.cursors,
            clock=clients.clock,
            ids=clients.ids,
        )
        self.chats = chats.parts.assemble(
            clients.database,
            users=self.accounts.directory,
            creation_keys=ChatCreationKeys(clients.database),
            log=self.messaging.log,
            producer=clients.producer,
            cursors=clients.cursors,
            clock=clients.clock,
            ids=clients.ids,
        )
        self.delivery = delivery.parts.assemble(
            clients.database,
            users=self.accounts.directory,
            chats=self.chats,
            messaging=self.messaging,
            redis=clients.async_redis,
            cursors=clients.cursors,
            clock=clients.clock,
        )
        self.gateway = delivery.parts.assemble_gateway(
            self.delivery,
            messaging=self.messaging,
            verifier=self.accounts.verifier,
            redis=clients.async_redis,
            channel_layer=get_channel_layer,
            options=delivery.parts.GatewayOptions(
                gateway_id=gateway_id,
                allowed_origins=settings.ALLOWED_ORIGINS,
                allowed_hosts=settings.ALLOWED_HOSTS,
                token_grace=settings.TOKEN_GRACE,
                max_connections_per_user=settings.MAX_CONNECTIONS_PER_USER,
                connects_per_user=Limit("connect", rate=settings.CONNECT_RATE, burst=settings.CONNECT_BURST),
            ),
            clock=clients.clock,
            ids=clients.ids,
        )
        self.client_address = ClientAddress(settings.TRUSTED_PROXIES)
        limiter = FallbackRateLimiter(LeasingRateLimiter(AsyncRateLimiter(clients.async_redis)))
        self.user_limits = UserLimits(
            limiter,
            [
                Limit(READS, rate=settings.READ_RATE, burst=settings.READ_BURST),
                Limit(WRITES, rate=settings.WRITE_RATE, burst=settings.WRITE_BURST),
                Limit(INVITATIONS, rate=settings.INVITE_RATE, burst=settings.INVITE_BURST),
            ],
        )
        self.public_limits = PublicLimits(
            limiter,
            Limit(PUBLIC, rate=settings.PUBLIC_RATE, burst=settings.PUBLIC_BURST),
            address_of=self.client_address,
            is_exempt=self.is_exempt,
        )
        self.gateway_probe = EngineProbes({"gateway": self.gateway.hub.require_open}, fresh=0)
        self.probes = EngineProbes({**clients.probes(), "gateway": self.gateway.hub.require_open})

    def is_exempt(self, address: str) -> bool:
        """Whether limits by address leave an address out: our proxies, and a laptop's own."""
        return self.client_address.is_proxy(address) or (settings.EMBEDDED and is_loopback(address))

    def start(self) -> None:
        """Run the asynchronous services on this thread's event loop, enter the list of homes, start the gateway."""
        self.clients.loop.attach()
        self._starting_gateway = self.clients.loop.submit(self.gateway.hub.start())
        self._serving_peers = self.clients.loop.submit(self.messaging.peers.run())

    async def close(self) -> None:
        """Shut down in order: list of homes, sockets, marks, drafts, reads, events, connections."""
        await self.messaging.peers.leave()
        await self.gateway.hub.drain()
        await self.delivery.marks.close()
        await self.messaging.peers.refuse()
        await self.messaging.committer.close()
        await self.messaging.peers.close()
        await self.messaging.history.close()
        await asyncio.to_thread(self.clients.producer.close)
        await self.clients.database.on_loop.wire.close()


@cache
def web() -> Web:
    """This process's parts."""
    return Web()
