"""A new writer takes few lines, and has leases, release, withdrawal and quarantine from the library."""

from __future__ import annotations

import ast
import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import drain_writer
import pytest
from drain_writer import DRAIN, DRAINED, Drain, Drained
from intent_scene import LEASE_SECONDS, SILENT_SECONDS, Agents, Replica
from tests.support.clock import EPOCH, FakeClock
from tests.support.store import MemoryDatabase

from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import Eviction
from slackwater.model.identifiers import partition_of

MOST_LINES = 30


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.agents = Agents(self.clock)
        self.database = MemoryDatabase()
        self.start(1)

    def start(self, epoch: int) -> None:
        self.replica = Replica(
            DRAIN, self.database, DRAINED, drain_writer.content_of, Drained, self.clock, self.agents, epoch
        )
        self.drain = Drain(self.replica.intents)

    async def evict(self, number: int, node: str = "n1") -> None:
        deadline = EPOCH + timedelta(minutes=1)
        await self.drain.evict(
            node,
            Eviction(
                id=f"d-{number}", pod_uid="a", grace_seconds=1, deadline=deadline, reason="drain", decision_id="d"
            ),
        )

    async def complete(self, number: int) -> None:
        now = self.clock.now()
        body = EvictionCompleted(
            id=f"d-{number}", node="n1", pod_uid="a", writer="drain", outcome=EvictionOutcome.KILLED,
            completed_at=now, decision_id="d",
        )  # fmt: skip
        await self.drain.complete(event_of(body, source="agent", time=now))

    def said(self) -> list[tuple[int, int, float, list[str]]]:
        """Of each document: generation, epoch, lease and evictions."""
        return [
            (document.generation, document.epoch, document.lease_seconds, [item.id for item in document.evictions])
            for document in self.replica.documents()
        ]

    def report(self, node: str = "n1") -> None:
        self.replica.read(node, self.agents.report(node))

    def deliver(self) -> None:
        for document in self.replica.documents():
            self.agents.receive(document)


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.replica.start()
    return scene


def test_its_lines_are_counted() -> None:
    """Without docstrings, imports and blank lines."""
    text = Path(drain_writer.__file__).read_text(encoding="utf-8")
    skipped = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = [line for number, line in enumerate(text.splitlines(), 1) if line.strip() and number not in skipped]
    assert len(lines) <= MOST_LINES, f"{len(lines)} lines"


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


async def test_a_node_that_is_not_stored_begins_with_its_first_change(scene: Scene) -> None:
    await scene.evict(1)
    await scene.evict(2)
    await scene.complete(1)
    await scene.complete(1)
    lease = LEASE_SECONDS
    assert scene.said() == [(1, 1, lease, ["d-1"]), (2, 1, lease, ["d-1", "d-2"]), (3, 1, lease, ["d-2"])]


async def test_a_stored_state_is_read_back_and_one_of_another_row_is_refused(scene: Scene) -> None:
    await scene.evict(1)
    state = scene.replica.rows["n1"]
    document, generation = DRAINED.encode(state)
    row = SimpleNamespace(node="n1", version=1, generation=generation, document=json.loads(document))
    assert DRAINED.decode(row) == state
    row.generation += 1
    with pytest.raises(ValueError, match="the row is n1 1"):
        DRAINED.decode(row)


async def test_a_restarted_writer_goes_on_where_it_was_under_its_new_epoch(scene: Scene) -> None:
    await scene.evict(1)
    scene.start(2)
    await scene.replica.start()
    await scene.complete(1)
    assert scene.said()[1:] == [(1, 2, LEASE_SECONDS, ["d-1"]), (2, 2, LEASE_SECONDS, [])]


async def test_its_leases_are_renewed_while_it_reads_reports_and_end_when_it_does_not(scene: Scene) -> None:
    await scene.evict(1)
    scene.deliver()
    for _ in range(12):
        scene.report()
        await scene.clock.advance(LEASE_SECONDS / 3)
        assert await scene.replica.renew() == 1
        assert scene.agents.is_alive("n1", DRAIN)
    await scene.clock.advance(LEASE_SECONDS)
    assert not scene.agents.is_alive("n1", DRAIN)
    assert scene.replica.meter.results == ["told"] * 12


async def test_a_blocked_node_is_named_and_an_outbox_that_waits_renews_nothing(scene: Scene) -> None:
    await scene.evict(1)
    scene.deliver()
    scene.report()
    scene.replica.blocked = ("n1",)
    await scene.clock.advance(LEASE_SECONDS)
    await scene.replica.renew()
    assert not scene.agents.is_alive("n1", DRAIN)
    scene.replica.blocked = ()
    scene.replica.waiting = {partition_of("n1"): LEASE_SECONDS}
    assert await scene.replica.renew() == 0
    assert scene.replica.meter.results == ["told", "outbox_behind"]
    scene.replica.waiting = {}
    assert await scene.replica.renew() == 1
    assert scene.agents.is_alive("n1", DRAIN)


async def test_a_silent_node_is_released_once_and_declared_again_when_it_reports(scene: Scene) -> None:
    scene.report()
    await scene.evict(1)
    await scene.clock.advance(SILENT_SECONDS + 1)
    assert [await scene.replica.reconcile(), await scene.replica.reconcile()] == [1, 0]
    assert scene.said()[-1] == (1, 1, 0.0, ["d-1"])
    await scene.evict(2)
    assert scene.said()[-1] == (2, 1, 0.0, ["d-1", "d-2"]), "what is wanted is kept, and holds for no time"
    await scene.clock.advance(1)
    scene.report()
    assert [await scene.replica.reconcile(), await scene.replica.reconcile()] == [1, 0]
    assert scene.said()[-1] == (2, 1, LEASE_SECONDS, ["d-1", "d-2"])


async def test_an_outage_makes_no_node_silent(scene: Scene) -> None:
    await scene.evict(1)
    await scene.clock.advance(SILENT_SECONDS + 1)
    scene.replica.reconcile.interrupt()
    assert await scene.replica.reconcile() == 0


async def test_a_withdrawn_document_wants_nothing_and_the_state_stays_stored(scene: Scene) -> None:
    await scene.evict(1)
    await scene.replica.intents.withdraw("n1", lambda node, generation: Drained(node, generation=generation))
    assert scene.said()[-1] == (2, 1, 0.0, [])
    assert scene.replica.rows["n1"].evictions


async def test_a_node_of_another_replica_or_in_quarantine_is_left_alone(scene: Scene) -> None:
    scene.replica.nodes.drop([partition_of("n1")])
    await scene.evict(1)
    assert scene.said() == []
    scene.replica.nodes.quarantine.note("nodes", "n2", ValueError("broken"), node="n2")
    await scene.evict(1, "n2")
    assert scene.said() == []


async def test_a_generation_never_sinks(scene: Scene) -> None:
    await scene.evict(1)

    def sinking(state: Drained, _: Any) -> Drained:
        return Drained(state.node, state.version, state.generation - 1)

    with pytest.raises(ValueError, match="generation 0 follows 1"):
        await scene.replica.intents.change("n1", sinking)
    assert len(scene.said()) == 1


async def test_no_document_looks_older_than_the_last_when_the_clock_is_set_back(scene: Scene) -> None:
    """An agent that reads the documents before again, because the broker lost the last, goes on with the last."""
    await scene.evict(1)
    scene.replica.intents.clock = FakeClock(EPOCH - timedelta(minutes=1))
    await scene.evict(2)
    await scene.evict(3)
    documents = scene.replica.documents()
    scene.deliver()
    assert not any(scene.agents.receive(document) for document in documents[:-1])
    assert len({document.declared_at for document in documents}) == len(documents), "agents report it as their document"
