"""A check of a chat for a page: one at a time, and not for long."""

import threading

import pytest

from foundation.kernel.ids import ChatId
from staff.parts import Recovery
from staff.services.chat_check import ChatCheck, CheckRunning, CheckTooLong
from tests.integration.staff.deployment import Deployment


@pytest.fixture
def chat_id(deployment: Deployment) -> ChatId:
    ann, bob = deployment.person().user_id, deployment.person().user_id
    chat_id = deployment.direct(ann, bob)
    deployment.send(chat_id, ann)
    return chat_id


def test_a_second_check_is_refused_until_the_first_is_done(deployment: Deployment, chat_id: ChatId) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    def recovery() -> Recovery:
        has_begun.set()
        assert may_go_on.wait(60)
        return deployment.recovery

    check = ChatCheck(recovery)
    first = threading.Thread(target=check.run, args=[chat_id], kwargs={"repair": False})
    first.start()
    assert has_begun.wait(60)
    with pytest.raises(CheckRunning):
        check.run(chat_id, repair=False)
    may_go_on.set()
    first.join()
    assert check.run(chat_id, repair=False) == []


def test_one_that_takes_too_long_is_given_up(deployment: Deployment, chat_id: ChatId) -> None:
    with pytest.raises(CheckTooLong):
        ChatCheck(lambda: deployment.recovery, seconds=0).run(chat_id, repair=False)
