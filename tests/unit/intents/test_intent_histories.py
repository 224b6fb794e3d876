"""Any history of two writers, their agents, restarts and outages keeps the promises of intent documents."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import cap_writer
import drain_writer
from cap_writer import CAP, CAPPED, Cap, Capped
from drain_writer import DRAIN, DRAINED, Drain, Drained
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from intent_scene import LEASE_SECONDS, SILENT_SECONDS, Agents, Replica, by_generation
from tests.support.clock import FakeClock
from tests.support.store import MemoryDatabase

from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import Eviction, IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.intents.controls import ControlField, Writer
from slackwater.intents.document import Content, is_older
from slackwater.model.errors import Unavailable

NODES = st.sampled_from(["n1", "n2"])
PODS = st.sampled_from(["a", "b", "c"])
WRITERS = st.sampled_from([CAP, DRAIN])


class TwoWriters(RuleBasedStateMachine):
    """`limits` and `evictions` are what was asked for and committed, by node; `delivered` counts the documents of each
    writer that reached the agents."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.agents = Agents(self.clock)
        self.cap = Replica(CAP, MemoryDatabase(), CAPPED, cap_writer.content_of, Capped, self.clock, self.agents)
        self.drain = Replica(
            DRAIN, MemoryDatabase(), DRAINED, drain_writer.content_of, Drained, self.clock, self.agents
        )
        self.limits: dict[str, dict[str, int]] = {"n1": {}, "n2": {}}
        self.evictions: dict[str, list[str]] = {"n1": [], "n2": []}
        self.delivered = {CAP.name: 0, DRAIN.name: 0}
        self.silent: set[str] = set()
        self.begun = 0
        self.run(self.cap.start())
        self.run(self.drain.start())

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.loop.close()

    def replica(self, writer: Writer) -> Replica[Any]:
        return self.cap if writer is CAP else self.drain

    async def retried(self, work: Any) -> None:
        """As a consumer does: after an outage, the same message again."""
        try:
            await work()
        except Unavailable:
            for replica in (self.cap, self.drain):
                replica.database.away = False
            await work()

    # ---- what the writers want

    @rule(node=NODES, pod=PODS, milli=st.integers(100, 400))
    def limit(self, node: str, pod: str, milli: int) -> None:
        self.limits[node][pod] = milli
        self.run(self.retried(lambda: Cap(self.cap.intents).limit(node, pod, milli)))

    @rule(node=NODES, pod=PODS)
    def evict(self, node: str, pod: str) -> None:
        self.begun += 1
        eviction_id, now = f"d-{self.begun}", self.clock.now()
        eviction = Eviction(
            id=eviction_id, pod_uid=pod, grace_seconds=1, deadline=now + timedelta(60), reason="drain", decision_id="d"
        )
        self.evictions[node].append(eviction_id)
        before = self.drain.rows.get(node)

        async def once() -> None:
            if self.drain.rows.get(node) is before:  # a commit whose answer was lost is not repeated
                await Drain(self.drain.intents).evict(node, eviction)

        self.run(self.retried(once))

    @precondition(lambda self: any(self.evictions.values()))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from([node for node, ids in self.evictions.items() if ids]))
        done = self.evictions[node].pop(0)
        now = self.clock.now()
        body = EvictionCompleted(
            id=done, node=node, pod_uid="a", writer=DRAIN.name, outcome=EvictionOutcome.KILLED, completed_at=now,
            decision_id="d",
        )  # fmt: skip
        event = event_of(body, source="agent", time=now)
        self.run(self.retried(lambda: Drain(self.drain.intents).complete(event)))

    # ---- what happens to them

    @rule(writer=WRITERS)
    def lose_an_answer(self, writer: Writer) -> None:
        """PostgreSQL goes away between the next commit and its answer."""
        self.replica(writer).database.goes_after_commit = True

    @rule(writer=WRITERS)
    def take_over(self, writer: Writer) -> None:
        """Another replica owns the nodes, under the next epoch."""
        before = self.replica(writer)
        before.database.goes_after_commit = False
        after: Replica[Any] = replace(before, epoch=before.epoch + 1)
        self.run(after.start())
        if writer is CAP:
            self.cap = after
        else:
            self.drain = after

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.clock.advance(seconds))

    # ---- what the agents do

    @rule(node=NODES)
    def report(self, node: str) -> None:
        if node not in self.silent:
            position = self.agents.report(node)
            for replica in (self.cap, self.drain):
                replica.read(node, position)

    @rule(node=NODES)
    def fall_silent(self, node: str) -> None:
        self.silent.add(node)

    @rule(writer=WRITERS)
    def renew(self, writer: Writer) -> None:
        self.run(self.replica(writer).renew())

    @rule(writer=WRITERS)
    def reconcile(self, writer: Writer) -> None:
        self.run(self.retried(self.replica(writer).reconcile))

    @rule(writer=WRITERS)
    def deliver(self, writer: Writer) -> None:
        documents = self.replica(writer).documents()
        for document in documents[self.delivered[writer.name] :]:
            assert self.agents.receive(document), "the newest document is always accepted"
        self.delivered[writer.name] = len(documents)

    @rule(writer=WRITERS, data=st.data())
    def deliver_again(self, writer: Writer, data: st.DataObject) -> None:
        """A document that was delivered before comes once more, in any order."""
        documents = self.replica(writer).documents()[: self.delivered[writer.name]]
        if not documents:
            return
        document = data.draw(st.sampled_from(documents))
        held = self.agents.held[document.node, document.writer]
        before = replace(held)
        if is_older(document, held.document):
            assert not self.agents.receive(document)
            assert held == before

    @rule(node=NODES, late=st.integers(0, 3), fails=st.booleans())
    def answer(self, node: str, late: int, fails: bool) -> None:
        """The agent answers a generation of the cap writer, maybe not the newest."""
        before = self.cap.rows.get(node)
        if before is None or before.generation <= late:
            return
        now, generation = self.clock.now(), before.generation - late
        failed = (ObservedLimit(pod_uid="a", cpu_limit_milli=None, error="not_found"),) if fails else ()
        body = IntentObserved(
            node=node, writer=CAP.name, generation=generation, boot_epoch="b", received_at=now, observed_at=now,
            limits=failed,
        )  # fmt: skip
        documents = len(self.cap.documents())
        event = event_of(body, source="agent", time=now)
        self.run(self.retried(lambda: Cap(self.cap.intents).observe(event)))
        other = _completion_of_another(node, now)
        self.run(self.retried(lambda: Drain(self.drain.intents).complete(other)))
        if late:
            assert self.cap.rows[node] == before, "an answer to an old generation changes nothing"
            assert len(self.cap.documents()) == documents
        elif fails:
            self.limits[node].pop("a", None)

    # ---- what holds always

    @invariant()
    def the_last_document_says_what_was_asked_for(self) -> None:
        for node in ("n1", "n2"):
            limits = _last(self.cap.documents(), node)
            assert limits is None or {t.pod_uid: t.cpu_limit_milli for t in limits.throttles} == self.limits[node]
            evictions = _last(self.drain.documents(), node)
            assert evictions is None or [item.id for item in evictions.evictions] == self.evictions[node]

    @invariant()
    def generations_grow_and_name_one_content(self) -> None:
        for replica in (self.cap, self.drain):
            for node in ("n1", "n2"):
                documents = [document for document in replica.documents() if document.node == node]
                generations = [document.generation for document in documents]
                assert generations == sorted(generations)
                for same in by_generation(documents).values():
                    assert len({(document.throttles, document.evictions) for document in same}) == 1

    @invariant()
    def a_writer_sets_its_own_controls_only(self) -> None:
        for writer in (CAP, DRAIN):
            for document in self.replica(writer).documents():
                assert document.writer == writer.name
                content = Content(
                    document.throttles, document.evictions, document.weights, document.waterlines, document.rules
                )
                assert content.controls() <= writer.controls

    @invariant()
    def a_lease_without_renewal_ends(self) -> None:
        """Of a node that is silent for longer than writers count it as heard, and a lease, no document is in force,
        whatever was renewed or declared for the other node meanwhile."""
        now = self.clock.monotonic()
        for (node, _), held in self.agents.held.items():
            last_report = max((at for _, at in self.agents.reports.get(node, ())), default=-SILENT_SECONDS)
            assert held.renewed is None or held.renewed - last_report <= SILENT_SECONDS
            if now - max(held.received, last_report + SILENT_SECONDS) >= LEASE_SECONDS:
                assert not held.is_alive(now)


def _last(documents: list[IntentDeclared], node: str) -> IntentDeclared | None:
    return next((document for document in reversed(documents) if document.node == node), None)


def _completion_of_another(node: str, now: Any) -> Any:
    body = EvictionCompleted(
        id="of-another", node=node, pod_uid="a", writer="ensurance", outcome=EvictionOutcome.KILLED, completed_at=now,
        decision_id="d",
    )  # fmt: skip
    return event_of(body, source="agent", time=now)


TwoWriters.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestTwoWriters = TwoWriters.TestCase


def test_controls_of_the_two_writers_are_disjoint() -> None:
    assert not CAP.controls & DRAIN.controls
    assert CAP.controls | DRAIN.controls == {ControlField.THROTTLES, ControlField.EVICTIONS}
