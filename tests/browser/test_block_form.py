"""The form on the page of dead letters: it blocks an agent with a reason, and unblocks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from devtools import Page
from fastapi import APIRouter
from served_routes import served
from test_console_in_a_browser import CONTRASTS, OUTSIDE, UNNAMED
from tests.support.broker_admin import MemoryAdmin
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.ingestion.blocks import MemoryBlocks
from tests.support.ingestion.ledger import Books
from tests.support.store import MemoryDatabase

from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.console.edge.stream import Streams
from slackwater.console.service import routers_of
from slackwater.ingestion.edge.block_routes import block_router
from slackwater.ingestion.usecases.block_agents import BlockAgents

pytestmark = pytest.mark.browser
FORM = "document.querySelector('form.blocking')"
ANSWER = "document.getElementById('answer')?.textContent"


@dataclass
class Process:
    """Console and ingestion in one process, with one letter of the agent of `bad.1`."""

    url: str
    bus: MemoryBus


@pytest.fixture
def process() -> Iterator[Process]:
    clock = FakeClock()
    bus = MemoryBus(clock=clock)

    async def routers() -> Sequence[APIRouter]:
        subject = "sw.v1.usage.reported.3.bad=2E1"
        await bus.broker.bury(DeadLetter("ingestion-usage-reported", "absurd", "d", subject, {}, b"{}", 1))
        database = MemoryDatabase(forward=bus.carry)
        agents = BlockAgents(database, MemoryBlocks().books(), Books().ledgers(), clock)
        model, streams, desk = MemoryReadModel(), Streams(bus, clock), MemoryAdmin(bus.broker)
        return [*routers_of(model, streams, clock, desk, lambda: bus.blocks), block_router(agents)]

    with served(routers) as url:
        yield Process(url, bus)


def test_an_admin_blocks_and_unblocks_an_agent(page: Page, process: Process) -> None:
    page.open(process.url + "/deadletters")
    page.until(f"{FORM}?.dataset.method === 'PUT'")
    page.ask(f"({FORM}.elements.reason.value = 'sends <b>poison</b>', {FORM}.requestSubmit(), true)")
    page.until(f"{ANSWER}?.includes('the agent of bad.1 is blocked')")
    assert process.bus.blocks.in_force()["bad.1"].reason == "sends <b>poison</b>"
    page.until(f"{FORM}?.dataset.method === 'DELETE'")  # the page was loaded again
    page.until("document.readyState === 'complete'")  # and its script listens
    page.until("document.querySelector('.senders')?.textContent.includes('sends <b>poison</b>')")
    page.ask(f"({FORM}.requestSubmit(), true)")
    page.until(f"{ANSWER}?.includes('is unblocked')")
    assert process.bus.blocks.in_force() == {}


def test_without_a_reason_nothing_is_sent(page: Page, process: Process) -> None:
    page.open(process.url + "/deadletters")
    page.until(f"{FORM}?.dataset.method === 'PUT'")
    assert page.ask(f"{FORM}.checkValidity()") is False
    page.ask(f"({FORM}.querySelector('button').click(), true)")
    assert page.ask(ANSWER) == ""
    assert process.bus.blocks.is_empty


@pytest.mark.parametrize("width", [1280, 400])
def test_the_form_fits_and_has_names(page: Page, process: Process, width: int) -> None:
    page.look(width)
    page.open(process.url + "/deadletters")
    page.until(f"{FORM} !== null")
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask(OUTSIDE) == []
    assert page.ask(UNNAMED) == []
    assert page.ask(CONTRASTS) == []
