"""The admin pages on a real deployment, used by Django's test client."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from django.contrib.auth.models import Group, User
from django.test import Client, override_settings
from django.urls import path

from accounts.models import UserModel
from accounts.services.registration import Registration
from accounts.services.sessions import TokenPair
from accounts.stores.users import UserStore
from chats.domain import ChatDraft, ChatType
from config.wiring.commands import clients
from config.wiring.recovery import recovery
from config.wiring.staff import staff_services_of
from config.wiring.web import Web
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database
from messaging.domain import Draft
from staff.pages.site import StaffSite
from staff.signals import record_logins

PASSWORD = "correct horse battery staple"
_numbers = (f"+4915112{number:06d}" for number in itertools.count(345678))


@dataclass
class Site:
    """`web` has the services behind the pages. Ada and Bob have a direct chat with one message of Ada's."""

    web: Web
    phone_number: str
    ada: UserId
    bob: UserId
    chat_id: ChatId
    session: TokenPair

    def client(self, group: str | None = None, *, username: str = "grace", is_superuser: bool = False) -> Client:
        """A browser in which an account of this group is logged in; without a group, one that may do nothing."""
        user = User.objects.create_user(username, password=PASSWORD, is_staff=True, is_superuser=is_superuser)
        if group is not None:
            user.groups.add(Group.objects.get(name=group))
        client = Client(raise_request_exception=False)
        client.force_login(user)
        return client

    @property
    def person_page(self) -> str:
        return f"/admin/people/{self.ada}/"

    @property
    def chat_page(self) -> str:
        return f"/admin/chats/{self.chat_id}/"


@contextmanager
def running_web(
    database: Database, *, dynamodb_url: str, kafka_servers: str, redis_url: str, requires_totp: bool = False
) -> Iterator[Web]:
    """The services on these engines, and the URLs of the pages."""
    with override_settings(
        DYNAMODB_ENDPOINT_URL=dynamodb_url,
        KAFKA_BOOTSTRAP_SERVERS=kafka_servers,
        REDIS_URL=redis_url,
        TABLE_PREFIX=database.table_name(UserModel).removesuffix("users"),
    ):
        for made in (clients, recovery):
            made.cache_clear()
        web = Web()
        with override_settings(ROOT_URLCONF=staff_urls(web, requires_totp=requires_totp)):
            record_logins(web.client_address)
            yield web
        web.clients.producer.close()
        for made in (clients, recovery):
            made.cache_clear()


def staff_urls(web: Web, *, requires_totp: bool) -> ModuleType:
    urls = ModuleType("urls_of_staff")
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("admin/", StaffSite(staff_services_of(web), requires_totp=requires_totp).urls)
    ]
    urls.handler404 = "foundation.rest.problems.not_found"  # type: ignore[attr-defined]
    return urls


def populated(web: Web) -> Site:
    """New people in the deployment."""
    used = web.clients
    registration = Registration(UserStore(used.database), ids=used.ids, clock=used.clock)
    phone_number = next(_numbers)
    ada, bob = (
        registration.find_or_create(number, display_name=None)[0].user_id for number in (phone_number, next(_numbers))
    )
    created = web.chats.creation.create(ada, ChatDraft(ChatType.DIRECT, None, (bob,)))
    chat_id = created.state.chat.chat_id
    draft = Draft(chat_id=chat_id, sender_id=ada, client_message_id="1", content="a private word")
    used.loop.run(web.messaging.committer.send(draft))
    session = web.accounts.sessions.open(user_id=ada, device_id="laptop")
    return Site(web, phone_number, ada, bob, chat_id, session)
