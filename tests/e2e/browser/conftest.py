"""A browser and a system for it. Without Chromium these tests are not collected."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foundation.kernel.ids import ChatId
from tests.e2e.browser import chromium
from tests.e2e.system import WEBS, Device, System

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.e2e.browser.people import Person

HERE = Path(__file__).parent
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

NewPerson = Callable[..., "Person"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without Playwright the test modules cannot be imported."""
    return True if not chromium.IS_POSSIBLE and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    """Package scope: while Playwright runs, it occupies the event loop that other packages' tests need."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an optional dependency

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PROGRAM, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="package")
def system(data_dir: Path) -> Iterator[System]:
    """Overrides the shared system: these tests kill and restart its first `web` process."""
    with System(data_dir) as system:
        yield system


@pytest.fixture
def new_person(browser: "Browser", system: System) -> Iterator[NewPerson]:
    """Create people with browsers; fails the test if a page had an error."""
    with people_in_browsers(browser, system) as create:
        yield create


@pytest.fixture
def ada(new_person: NewPerson) -> "Person":
    return new_person("Ada")


@pytest.fixture
def ben(new_person: NewPerson) -> "Person":
    return new_person("Ben")


@pytest.fixture
def chat_id(system: System, ada: "Person", ben: "Person") -> ChatId:
    """A direct chat of both."""
    return system.direct_chat(ada.device, ben.device)


@contextmanager
def people_in_browsers(browser: "Browser", system: System) -> Iterator[NewPerson]:
    """Neighbours are on different gateways if there are several."""
    from tests.e2e.browser.people import DESKTOP, log_in  # noqa: PLC0415 - needs Playwright

    people: list[Person] = []

    def create(name: str, *, device: Device | None = None, screen: tuple[int, int] = DESKTOP) -> "Person":
        web = system.webs[len(people) % WEBS]
        people.append(log_in(name, system=system, web=web, browser=browser, device=device, screen=screen))
        return people[-1]

    yield create
    errors = [error for person in people for tab in person.tabs for error in tab.errors]
    for person in people:
        person.context.close()
    assert errors == []
