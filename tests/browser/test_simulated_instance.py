"""A crawler follows every link of every page of `slackwater up --driver simulated`, while its day goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from devtools import Page
from tests.support.crawl import Opened, crawl

from slackwater.model.errors import NotFound
from slackwater.runtime.state import StateDir

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0
LINKS = """[...document.links].filter(a => a.origin === location.origin).map(a => a.href.split('#')[0])"""
STATUS = "performance.getEntriesByType('navigation')[0].responseStatus"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an instance that has offered and claimed something."""
    state = tmp_path_factory.mktemp("state")
    environment = os.environ | {"SLACKWATER_STATE_DIR": str(state)}
    command = [sys.executable, "-m", "slackwater.cli", "up", "--driver", "simulated", "--nodes", "4", "--port", "0"]
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            yield _address_once_busy(StateDir(state))
        finally:
            process.send_signal(signal.SIGTERM)


def _address_once_busy(state: StateDir) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    awaited = {"offer", "claim"}
    while time.monotonic() < deadline:
        with contextlib.suppress(NotFound, httpx2.TransportError):
            url = state.running_endpoint().http_url
            answers = [httpx2.get(f"{url}/v1/decisions?kind={kind}&limit=1", trust_env=False) for kind in awaited]
            if all(answer.is_success and answer.json()["items"] for answer in answers):
                return url
        time.sleep(0.5)
    raise AssertionError(f"no decision of each of {awaited} in {PATIENCE_SECONDS:.0f} s")


@pytest.mark.timeout(400)
def test_every_link_of_every_page_leads_somewhere(page: Page, instance: str) -> None:
    def open_page(url: str) -> Opened:
        page.open(url)
        return Opened(page.ask(STATUS), page.ask(LINKS))

    opened = crawl((f"{instance}/", f"{instance}/demo"), open_page)
    assert [shown for pages in opened.values() for shown in pages if shown[1] != 200] == []
    assert len(opened) > 150
    assert page.heard("Runtime.exceptionThrown") == []
