"""Dead letters by the agent that sent them, blocks beside them, and the role that may change a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from console_app import console_app
from tests.support.broker_admin import MemoryAdmin
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.reports import described

from slackwater.bus.admin.broker_admin import ClosedAdmin, dead_letter_row
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.console.domain.senders import SenderBlock, SentLetter, senders_of, worst_of
from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.service import routers_of
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.console.usecases.senders import MOST, PAGE, Senders
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

NASTY = "<script>alert(1)</script>"
BLOCK = SenderBlock(NASTY, "ada", EPOCH)


def sent(node: str, position: int, reason: str = "invalid_payload", minutes: float = 0) -> SentLetter:
    return SentLetter(node, position, reason, EPOCH - timedelta(minutes=minutes))


def test_letters_are_counted_by_node_for_an_hour_and_blocked_agents_are_added() -> None:
    letters = [sent("b", 9), sent("a", 8, "malformed"), sent("b", 7, "malformed"), sent("b", 6), sent("", 5)]
    old = [sent("c", 4, minutes=61), sent("b", 3, minutes=61)]
    found = senders_of([*letters, *old], {"quiet": BLOCK}, EPOCH)
    assert [(one.node, one.letters) for one in found] == [("b", 3), ("a", 1), ("quiet", 0)]
    assert found[0].reasons == (("invalid_payload", 2), ("malformed", 1))
    assert found[0].newest == letters[0]
    assert (found[2].newest, found[2].block) == (None, BLOCK)


def test_the_worst_is_the_one_that_still_needs_the_operator() -> None:
    letters = [sent("b", 9), sent("b", 8), sent("a", 7)]
    assert worst_of(senders_of(letters, {}, EPOCH)).node == "b"  # type: ignore[union-attr]  # it is there
    assert worst_of(senders_of(letters, {"b": BLOCK}, EPOCH)).node == "a"  # type: ignore[union-attr]  # as above
    assert worst_of(senders_of([], {"b": BLOCK}, EPOCH)) is None


@pytest.mark.parametrize(
    ("subject", "source", "sender"),
    [
        ("sw.v1.usage.reported.3.edge=2E7", "ensurance", "edge.7"),
        ("sw.v1.agent.decision_recorded.3.n", "ensurance", "n"),
        ("sw.v1.decision.recorded.3.n.id", "agent/n", ""),
        ("sw.v1.eviction.completed.3.n.ensurance", "kubernetes", "n"),
        ("sw.v1.eviction.completed.3.n.ensurance.kubernetes", "kubernetes", ""),
        ("sw.v1.node.liveness_changed.3.n", "ingestion", ""),
        ("", "", ""),
    ],
)
def test_the_sender_of_a_letter_is_the_node_of_its_subject(subject: str, source: str, sender: str) -> None:
    assert dead_letter_row(1, {"sw-subject": subject, "ce-source": source}, b"", None).sender == sender


@dataclass
class Scene:
    bus: MemoryBus
    client: httpx2.AsyncClient

    async def bury(self, node: str, count: int = 1) -> None:
        for number in range(count):
            subject = f"sw.v1.usage.reported.3.{node}"
            letter = DeadLetter(
                "ingestion-usage-reported", "invalid_payload", "d", subject, {"ce-id": f"{node}-{number}"}, b"{}", 1
            )
            await self.bus.broker.bury(letter)

    async def block(self, node: str) -> None:
        change = AgentBlockChanged(node=node, blocked=True, reason=NASTY, changed_by="ada", since=EPOCH)
        await self.bus.publish(event_of(change, source="ingestion", time=EPOCH))

    async def page(self, path: str, **headers: str) -> str:
        answer = await self.client.get(path, headers=headers)
        assert answer.status_code == 200
        return answer.text


@pytest_asyncio.fixture
async def scene(clock: FakeClock, model: MemoryReadModel) -> AsyncIterator[Scene]:
    bus = MemoryBus(clock=clock)
    hour = timedelta(hours=1)
    record = routes(RecordEvents(model, clock, usage_retention=hour, decision_retention=hour))
    for node in ("bad", "good"):
        await record[NodeDescribed]([event_of(described(node, clock.now()), source="agent", time=clock.now())])
    app = console_app(model, Streams(bus, clock), clock, MemoryAdmin(bus.broker), lambda: bus.blocks)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield Scene(bus, client)


async def _no_checks() -> list[Any]:
    return []


async def test_the_pages_say_nothing_while_all_is_handled(scene: Scene) -> None:
    assert "cannot be handled" not in await scene.page("/")
    assert "In the last hour" not in await scene.page("/nodes/bad")


async def test_the_front_page_the_loop_and_the_node_say_it(scene: Scene) -> None:
    await scene.bury("bad", 3)
    await scene.bury("good", 1)
    assert "3 dead letters in the last hour" in await scene.page("/?part=true")
    assert "most from bad" in await scene.page("/loop?part=true")
    assert "3 messages of this agent could not be handled" in await scene.page("/nodes/bad?part=true")
    assert "1 message of this agent" in await scene.page("/nodes/good")
    letters = await scene.page("/deadletters")
    assert letters.index("/nodes/bad") < letters.index("/nodes/good")
    assert "Agent of" in await scene.page("/deadletters/1")


async def test_a_block_is_shown_where_the_node_is_and_cannot_inject_anything(scene: Scene) -> None:
    await scene.bury("bad", 3)
    await scene.block("bad")
    node, letters = await scene.page("/nodes/bad"), await scene.page("/deadletters")
    assert "The agent is blocked since" in node
    assert 'data-method="DELETE" data-node="bad"' in letters
    assert NASTY not in node + letters
    assert "cannot be handled" not in await scene.page("/")


async def test_letters_are_read_once_for_many_pages_and_in_bounds(clock: FakeClock) -> None:
    bus = MemoryBus(clock=clock)
    scene = Scene(bus, httpx2.AsyncClient())
    await scene.bury("bad", MOST + PAGE)
    desk = Counting(bus.broker)
    senders = Senders(desk, lambda: bus.blocks, clock)
    assert [(one.node, one.letters) for one in await senders()] == [("bad", MOST)]
    assert await senders.of("good") is None
    assert desk.pages == MOST // PAGE
    await clock.advance(6)
    await senders()
    assert desk.pages == 2 * MOST // PAGE
    await scene.client.aclose()


class Counting(MemoryAdmin):
    pages = 0

    async def letters(self, before: int | None = None, limit: int = 50) -> Any:
        self.pages += 1
        return await super().letters(before, limit)


async def test_without_a_broker_the_blocks_are_still_known(clock: FakeClock) -> None:
    bus = MemoryBus(clock=clock)
    scene = Scene(bus, httpx2.AsyncClient())
    await scene.block("bad")
    found = await Senders(ClosedAdmin(), lambda: bus.blocks, clock)()
    assert [(one.node, one.letters, one.block is not None) for one in found] == [("bad", 0, True)]
    await scene.client.aclose()


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("operator", False), ("admin", True)])
async def test_only_an_admin_is_shown_the_form(
    clock: FakeClock, model: MemoryReadModel, tmp_path: Any, role: str, *, may: bool
) -> None:
    bus, token = MemoryBus(clock=clock), "the-long-token-of-somebody"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{role} {role} {token}\n")
    tokens.chmod(0o600)
    routers = routers_of(model, Streams(bus, clock), clock, MemoryAdmin(bus.broker), lambda: bus.blocks)
    app = build_app(routers, _no_checks, HttpSettings(host="127.0.0.1", port=0, tokens_file=tokens))
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
    ) as client:
        scene = Scene(bus, client)
        await scene.bury("bad")
        page = await scene.page("/deadletters")
    assert ('class="blocking"' in page, "needs the role admin" in page) == (may, not may)
