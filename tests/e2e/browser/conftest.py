"""A browser and a system for it. Where Chromium is missing, these tests are left out, and the run says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browser import chromium
from tests.e2e.system import Device, System

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

Seat = Callable[..., "Person"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without a browser the modules cannot even be imported."""
    return True if not chromium.IS_POSSIBLE and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    """Not of the session: while Playwright is there, it occupies the event loop that other packages' tests need."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not there where these tests are left out

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PROGRAM, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("town")


@pytest.fixture(scope="package")
def town(data_dir: Path) -> Iterator[System]:
    """A system whose `web` may be killed and started again."""
    with System(data_dir) as system:
        yield system


@pytest.fixture
def seat(browser: "Browser", town: System) -> Iterator[Seat]:
    """Sit somebody down before a browser; at the end no browser may have complained."""
    with seating(browser, town) as place:
        yield place


@contextmanager
def seating(browser: "Browser", town: System) -> Iterator[Seat]:
    from tests.e2e.browser.people import sit_down  # noqa: PLC0415 - needs Playwright

    people: list[Person] = []

    def place(name: str, *, device: Device | None = None) -> "Person":
        people.append(sit_down(name, system=town, browser=browser, device=device))
        return people[-1]

    yield place
    complaints = [complaint for person in people for tab in person.tabs for complaint in tab.complaints]
    for person in people:
        person.context.close()
    assert complaints == []
