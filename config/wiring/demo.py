"""The demo's parts, on the apps of a `web` process. Embedded runs only: the demo logs people in without a code."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from accounts.services.registration import Registration
from accounts.stores.users import UserStore
from config.wiring.web import Web
from demo.seeder import DemoSeeder, DemoServices


def demo_of(web: Web) -> DemoSeeder:
    if not settings.EMBEDDED:
        raise ImproperlyConfigured("The demo exists in embedded mode only")
    clients = web.clients
    return DemoSeeder(
        DemoServices(
            registration=Registration(UserStore(clients.database), ids=clients.ids, clock=clients.clock),
            sessions=web.accounts.sessions,
            suspensions=web.accounts.suspensions,
            creation=web.chats.creation,
            inbox=web.delivery.inbox,
            committer=web.messaging.committer,
            loop=clients.loop,
            watermarks=web.delivery.watermarks,
        )
    )
