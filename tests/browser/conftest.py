"""One browser for the session; consoles and tabs as the tests need them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from demo_files import demo_folder
from devtools import Browser, Page, chromium_on_path
from served import Served, served
from tests.support.story import LENGTH_SECONDS, SURGE

from slackwater.console.adapters.demo_files import DemoFiles
from slackwater.events.envelope import Event


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
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The console at the end of the story, with a run of the demo; nothing more happens there."""
    demo = DemoFiles(demo_folder(tmp_path_factory.mktemp("state")))
    with served(demo=demo) as console:
        console.bury(
            "invalid_payload",
            "record: Field required",
            b'{"node": "edge-7", "kind": "throttle"}',
            event="agent.decision_recorded",
        )
        yield console


@pytest.fixture
def hostile() -> Iterator[Served]:
    """A console whose pods bear names that would like to be markup."""
    with served(0) as console:
        console.rest = [renamed(event) for event in console.rest]
        console.tell(LENGTH_SECONDS)
        console.bury(HOSTILE, HOSTILE, HOSTILE.encode())
        yield console


HOSTILE = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'


def renamed(event: Event[Any]) -> Event[Any]:
    """The event with another name for the pod encode-video-0, wherever it stands."""
    body = event.data.model_dump_json().replace('"encode-video-0"', json.dumps(HOSTILE))
    return event.model_copy(update={"data": type(event.data).model_validate_json(body)})


@pytest.fixture
def living() -> Iterator[Served]:
    """A console of the test's own, where the surge has just begun: tell it to go on."""
    with served(SURGE[0] + 5) as console:
        yield console
