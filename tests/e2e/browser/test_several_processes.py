"""`make run WEB=3 FANOUT=2`: browsers on different `web` processes chat, and one of the processes is killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from foundation.kernel.ids import ChatId
from tests.doubles import eventually
from tests.e2e.browser.people import Person, Tab, open_browser
from tests.e2e.browser.test_client import latest_code
from tests.e2e.dev_run import DevRun
from tests.e2e.system import Device

WEBS = ("web-1", "web-2", "web-3")
SOCKETS = "parley_gateway_connections "
MAX_PLACEMENTS = 30
"""A page shares its process with another one in a third of all cases: hardly in thirty of thirty."""


@pytest.fixture
def run(start_dev: Callable[..., DevRun], tmp_path: Path) -> DevRun:
    run = start_dev(tmp_path, "--web", str(len(WEBS)), "--fanout", "2")
    run.wait_until_ready()
    return run


@pytest.fixture
def people(run: DevRun, browser: Browser) -> Iterator[tuple[Person, Person]]:
    ada, ben = log_in(run, browser, "Ada", "+4915120000081"), log_in(run, browser, "Ben", "+4915120000082")
    yield ada, ben
    errors = [error for person in (ada, ben) for tab in person.tabs for error in tab.errors]
    ada.context.close()
    ben.context.close()
    assert errors == []


def log_in(run: DevRun, browser: Browser, name: str, number: str) -> Person:
    url = run.wait_until_ready()
    with httpx.Client(base_url=url, timeout=20.0) as http:
        http.post("/api/auth/request-code", json={"phone_number": number}).raise_for_status()
        attempt = {"phone_number": number, "code": latest_code(run.data_dir), "device_id": name, "display_name": name}
        login = http.post("/api/auth/verify", json=attempt).raise_for_status().json()
    device = Device(login["user"]["user_id"], login["session_id"], login["access_token"])
    return open_browser(name, device, login, url=url, browser=browser)


def direct_chat(one: Person, other: Person) -> ChatId:
    body = {"type": "direct", "members": [other.device.user_id]}
    answer = httpx.post(f"{one.url}/api/chats", json=body, headers=one.device.headers, timeout=20.0)
    return ChatId(answer.raise_for_status().json()["chat_id"])


def stored(person: Person, chat_id: ChatId) -> list[str]:
    """The contents of the chat's messages, ascending."""
    path = f"{person.url}/api/chats/{chat_id}/messages?limit=100"
    page = httpx.get(path, headers=person.device.headers, timeout=20.0).raise_for_status().json()
    return [message["content"] for message in sorted(page["messages"], key=lambda each: int(each["sequence"]))]


def sockets(run: DevRun, name: str) -> int:
    """How many sockets a `web` process holds."""
    lines = httpx.get(f"{run.addresses()[name][0]}/metrics", timeout=20.0).text.splitlines()
    return next(int(float(line.removeprefix(SOCKETS))) for line in lines if line.startswith(SOCKETS))


def holders(run: DevRun, count: int) -> set[str]:
    """The processes that hold the pages' sockets, once there are `count` of them."""
    found: dict[str, int] = {}

    def is_complete() -> bool:
        found.update({name: sockets(run, name) for name in WEBS})
        return sum(found.values()) == count

    eventually(is_complete, within=15)
    return {name for name in WEBS if found[name]}


def open_elsewhere(run: DevRun, person: Person, chat_id: ChatId, taken: set[str]) -> tuple[Tab, str]:
    """Open the chat in new tabs until one's socket is held by a process that is not `taken`; which one it is."""
    for _ in range(MAX_PLACEMENTS):
        tab = person.tab().open_chat(chat_id)
        if others := holders(run, len(taken) + 1) - taken:
            return tab, others.pop()
        tab.page.close()
        holders(run, len(taken))
    raise AssertionError(f"all connections went to {taken}")


def test_nothing_is_lost_when_the_process_of_one_of_them_is_killed(run: DevRun, people: tuple[Person, Person]) -> None:
    ada, ben = people
    chat_id = direct_chat(ada, ben)
    hers, _ = open_elsewhere(run, ada, chat_id, set())
    his, lost = open_elsewhere(run, ben, chat_id, holders(run, 1))
    hers.write("hello from one process")
    his.write("hello from another")
    for tab in (hers, his):
        expect(tab.messages).to_have_count(2)

    for number in range(5):
        hers.write(f"hers {number}")
        his.write(f"his {number}")
    run.child(lost).kill()
    hers.write("hers, meanwhile")
    his.write("his, meanwhile")
    run.wait_for_line(f"{lost} was killed by SIGKILL")
    for tab in (hers, his):
        expect(tab.messages).to_have_count(14)
        expect(tab.banner).to_be_hidden()
    his.write("his, from a third process or hers")
    expect(hers.messages).to_have_count(15)

    assert hers.sequences() == his.sequences() == list(range(1, 16))
    texts = hers.messages.all_text_contents()
    assert his.messages.all_text_contents() == texts == stored(ada, chat_id)
    for name in ("hers", "his"):
        expected = [*(f"{name} {number}" for number in range(5)), f"{name}, meanwhile"]
        assert [text for text in texts if text.startswith(name)][:6] == expected
