"""What the ingest path counts."""

import pytest
from prometheus_client import REGISTRY

from foundation.kernel.ids import ChatId, UserId
from messaging.services import committer
from tests.doubles import eventually
from tests.integration.messaging.services import Services

NAMES = (
    "parley_commit_batch_messages_sum",
    "parley_commit_batch_chats_count",
    "parley_commit_seconds_count",
    "parley_send_seconds_count",
    "parley_messages_sent_total",
    "parley_messages_duplicate_total",
)


def samples() -> dict[str, float]:
    return {name: REGISTRY.get_sample_value(name) or 0.0 for name in NAMES}


class TestMetrics:
    def test_each_message_is_counted_once_and_a_duplicate_as_such(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        before = samples()
        for number in range(5):
            services.send(services.draft(chat, ann, f"metric-{number}"))
        services.send(services.draft(chat, ann, "metric-0"))
        eventually(lambda: samples()["parley_messages_sent_total"] - before["parley_messages_sent_total"] == 6)
        grown = {name: value - before[name] for name, value in samples().items()}
        assert grown["parley_commit_batch_messages_sum"] == 6, "the repeated message was tried, and cancelled"
        assert grown["parley_commit_batch_chats_count"] == grown["parley_commit_seconds_count"] == 6
        assert grown["parley_send_seconds_count"] == 6
        assert grown["parley_messages_duplicate_total"] == 1

    def test_a_chat_that_outgrows_its_partition_is_counted_once_for_each_multiple(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(committer, "LARGE_CHAT", 3)
        before = REGISTRY.get_sample_value("parley_large_chats_total") or 0.0
        for number in range(5):
            services.send(services.draft(chat, ann, f"large-{number}"))
        assert REGISTRY.get_sample_value("parley_large_chats_total") == before + 1

    def test_nothing_is_left_waiting(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.send(services.draft(chat, ann))
        eventually(lambda: REGISTRY.get_sample_value("parley_ingest_waiting_drafts") == 0)
