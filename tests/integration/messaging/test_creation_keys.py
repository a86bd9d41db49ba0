import pytest

from chats.services.creation_keys import CreationKeys
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionCancelled
from messaging.stores.messages import CREATION_KEY_SECONDS, ChatCreationKeys
from tests.doubles import SettableClock
from tests.integration.messaging.services import Services


@pytest.fixture
def keys(database: Database) -> CreationKeys:
    return ChatCreationKeys(database)


class TestCreationKeys:
    def test_a_key_leads_to_its_chat_for_its_user_alone(
        self, services: Services, keys: CreationKeys, ann: UserId, bob: UserId, clock: SettableClock
    ) -> None:
        chat_id = services.ids.chat()
        services.database.transact([keys.remembering(ann, "key", chat_id=chat_id, now=clock.now())])
        assert keys.find(ann, "key", now=clock.now()) == chat_id
        assert keys.find(bob, "key", now=clock.now()) is None
        assert keys.find(ann, "other", now=clock.now()) is None

    def test_a_key_is_remembered_once(
        self, services: Services, keys: CreationKeys, ann: UserId, clock: SettableClock
    ) -> None:
        first, second = services.ids.chat(), services.ids.chat()
        services.database.transact([keys.remembering(ann, "key", chat_id=first, now=clock.now())])
        with pytest.raises(TransactionCancelled):
            services.database.transact([keys.remembering(ann, "key", chat_id=second, now=clock.now())])
        assert keys.find(ann, "key", now=clock.now()) == first

    def test_after_a_day_a_key_is_free_again(
        self, services: Services, keys: CreationKeys, ann: UserId, clock: SettableClock
    ) -> None:
        first, second = services.ids.chat(), services.ids.chat()
        services.database.transact([keys.remembering(ann, "key", chat_id=first, now=clock.now())])
        clock.advance(seconds=CREATION_KEY_SECONDS - 1)
        assert keys.find(ann, "key", now=clock.now()) == first
        clock.advance(seconds=1)
        assert keys.find(ann, "key", now=clock.now()) is None
        services.database.transact([keys.remembering(ann, "key", chat_id=second, now=clock.now())])
        assert keys.find(ann, "key", now=clock.now()) == second
