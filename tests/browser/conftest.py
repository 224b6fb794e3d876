"""One browser for the session; consoles and tabs as the tests need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from devtools import Browser, Page, chromium_on_path
from served import Served, served

from slackwater.testing.story import SURGE


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = chromium_on_path()
    if executable is None:
        pytest.skip("no chromium on PATH (Debian: apt-get install chromium)")
    with Browser(executable, tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.page() as tab:
        tab.look(1280)
        yield tab


@pytest.fixture(scope="session")
def told() -> Iterator[Served]:
    """The console at the end of the story; nothing more happens there."""
    with served() as console:
        yield console


@pytest.fixture
def living() -> Iterator[Served]:
    """A console of the test's own, where the surge has just begun: tell it to go on."""
    with served(SURGE[0] + 5) as console:
        yield console
