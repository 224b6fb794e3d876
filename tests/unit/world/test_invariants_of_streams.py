"""Windows that count too much, agents that follow an old document, and messages of a stream that lost its tail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.reports import report
from tests.support.story_health import window_of
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.core.generations import INTENTS, AgentsFollowTheNewestDocument
from tests.world.invariants.core.publish_order import CommittedEventsArePublishedOnce
from tests.world.invariants.ingestion.acknowledgements import RunningAgentsAreCounted
from tests.world.invariants.ingestion.windows import WindowsCountOnce
from tests.world.plan import BROKER, Plan, PlannedFault
from tests.world.trace import Kind, Step

from slackwater.events.envelope import Payload, event_of, subject_of
from slackwater.events.intent_declared import IntentDeclared

AGENT, NODE = "agent-00", "node-00"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@dataclass
class Stream:
    """Steps by hand, and an agent that holds what the test says."""

    plan: Plan = field(default_factory=lambda: Plan(1))
    held: tuple[int, int] = (1, 1)
    service: Any = None
    files: dict[str, bytes] = field(default_factory=dict)
    kept: Mapping[int, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    invariant: Invariant = field(init=False)

    def watch(self, invariant: type[Invariant]) -> Invariant:
        self.restart()
        self.station = SimpleNamespace(node=NODE, service=self.service, disk=SimpleNamespace(files=lambda: self.files))
        world: Any = SimpleNamespace(
            plan=self.plan,
            stations={AGENT: self.station},
            broker=SimpleNamespace(jetstreams={"WINDOWS": SimpleNamespace(messages=self.kept)}),
            postgres=SimpleNamespace(schemas={"ingestion": SimpleNamespace(tables=self.tables)}),
            clock_of=lambda _: SimpleNamespace(monotonic=lambda: 0.0),
            loop=SimpleNamespace(time=lambda: 3600.0),
        )
        self.invariant = invariant(world)
        return self.invariant

    def restart(self) -> None:
        self.service = SimpleNamespace(desired_states=lambda: (self.document(*self.held),))

    @staticmethod
    def document(epoch: int, generation: int) -> Any:
        return SimpleNamespace(writer="ensurance", epoch=epoch, generation=generation, received=1.0)

    def step(self, kind: Kind, subject: str, value: Any = None, at: float = 0.0, **detail: Any) -> None:
        self.steps += 1
        process = AGENT if kind is Kind.STORED else ""
        self.invariant.on_step(Step(self.steps, at, process, kind, subject, "", detail, value))

    def stored(self, payload: Payload, at: float = 0.0, **detail: Any) -> None:
        headers = {"ce-source": "ingestion"}
        message = SimpleNamespace(body=payload.body().encode(), headers=headers)
        self.step(Kind.STORED, subject_of(payload), message, at, **detail)

    def report(self, at: float = 0.0) -> None:
        self.step(Kind.STORED, "sw.v1.usage.reported.0.node-00", at=at)


# windows


def counting(reports: int, gaps: int) -> None:
    """Four reports of a minute, of which the second was lost, one of the next, and a window that counts so many."""
    stream = Stream()
    stream.watch(WindowsCountOnce)
    for sequence in (1, 3, 4, 5, 6):
        stream.stored(report(NODE, sequence, NOON + timedelta(seconds=12 * sequence)))
    counted = window_of(NODE, 0, NOON, 60, 100, 100).model_copy(update={"reports": reports, "gaps": gaps})
    stream.stored(counted, id="one")


def test_a_window_that_counts_each_number_once_holds() -> None:
    counting(4, 1)


@pytest.mark.parametrize(("reports", "gaps", "words"), [(5, 0, "4 were stored"), (4, 2, "5 were numbered")])
def test_a_window_that_counts_a_number_twice_is_found_whatever_the_next_one_holds(
    reports: int, gaps: int, words: str
) -> None:
    with pytest.raises(Violation, match=words):
        counting(reports, gaps)


def test_a_running_agent_that_ingestion_does_not_count_is_found_at_rest() -> None:
    table = SimpleNamespace(
        definition=SimpleNamespace(names=("name", "boot_epoch")), committed=lambda: [(NODE, "an earlier boot")]
    )
    stream = Stream(tables={"nodes": table})
    invariant = stream.watch(RunningAgentsAreCounted)
    invariant.at_rest()
    stream.stored(report(NODE, 1, NOON))
    with pytest.raises(Violation, match="an earlier boot"):
        invariant.at_rest()


def test_an_earlier_boot_that_takes_the_place_of_a_fresh_one_is_found() -> None:
    names = ("name", "boot_epoch", "liveness")
    table = SimpleNamespace(definition=SimpleNamespace(names=names), committed=list)
    for liveness, is_found in (("fresh", True), ("stale", False)):
        stream = Stream(tables={"nodes": table})
        stream.watch(RunningAgentsAreCounted)
        stream.stored(report(NODE, 1, NOON, boot_epoch="first"))
        stream.stored(report(NODE, 1, NOON, boot_epoch="second"))

        def replaced(before: str, after: str, stream: Stream = stream, liveness: str = liveness) -> None:
            rows = (NODE, before, liveness), (NODE, after, liveness)
            commit = SimpleNamespace(written={("nodes", NODE): rows})
            stream.step(Kind.COMMITTED, "ingestion", commit)

        replaced("first", "second")
        with pytest.raises(Violation, match="boot first took the place of second") if is_found else nullcontext():
            replaced("second", "first")


# documents


def intent(epoch: int, generation: int, seconds: float = 0.0) -> IntentDeclared:
    at = NOON + timedelta(seconds=seconds)
    return IntentDeclared(
        node=NODE, writer="ensurance", generation=generation, epoch=epoch, declared_at=at, lease_seconds=15.0
    )


@pytest.mark.parametrize("older", [(1, 1), (1, 2)])
def test_an_agent_that_goes_back_to_an_older_document_is_found(older: tuple[int, int]) -> None:
    stream = Stream(held=(2, 2))
    stream.watch(AgentsFollowTheNewestDocument)
    for epoch, generation in ((1, 1), (1, 2), (2, 2)):
        stream.stored(intent(epoch, generation))
    stream.report()
    stream.held = older
    with pytest.raises(Violation, match="now follows"):
        stream.report()


@pytest.mark.parametrize(("declared_after", "is_found"), [(-1.0, True), (1.0, False)])
def test_after_a_restart_a_document_from_before_the_stored_one_is_found(declared_after: float, is_found: bool) -> None:
    stream = Stream(held=(1, 2))
    stream.files[INTENTS] = json.dumps(
        [event_of(intent(1, 3), source="ensurance", time=NOON).model_dump(mode="json")]
    ).encode()
    stream.watch(AgentsFollowTheNewestDocument)
    stream.stored(intent(1, 2, declared_after))
    stream.step(Kind.STARTED, f"{AGENT}/2")
    stream.step(Kind.RECOVERED, NODE, stream.station)
    if not is_found:
        stream.report()
        return
    with pytest.raises(Violation, match="had stored"):
        stream.report()


@pytest.mark.parametrize(
    ("fault", "at", "is_found"),
    [
        (None, 105.0, False),
        (None, 111.0, True),
        (PlannedFault("cut", f"{AGENT}>{BROKER}", 90.0, 5.0), 111.0, False),
        (PlannedFault("cut", f"{AGENT}>{BROKER}", 60.0, 5.0), 111.0, True),
        (PlannedFault("cut", f"agent-01>{BROKER}", 90.0, 5.0), 111.0, True),
        (PlannedFault("power of a rack fails", "agent-01", 90.0, 5.0), 111.0, False),
    ],
)
def test_an_undisturbed_agent_that_does_not_follow_is_found(
    fault: PlannedFault | None, at: float, is_found: bool
) -> None:
    stream = Stream(Plan(1, faults=() if fault is None else (fault,)))
    stream.watch(AgentsFollowTheNewestDocument)
    stream.stored(intent(1, 1), at=50.0)
    stream.report(at=51.0)
    stream.stored(intent(2, 1), at=100.0)
    if not is_found:
        stream.report(at=at)
        return
    with pytest.raises(Violation, match="still follows"):
        stream.report(at=at)


# the tail of a stream


@pytest.mark.parametrize(("sequence", "is_found"), [(7, False), (8, True)])
def test_a_second_copy_is_found_unless_the_stream_has_lost_the_first(sequence: int, is_found: bool) -> None:
    window = window_of(NODE, 0, NOON, 60, 100, 100)
    first = SimpleNamespace(message=SimpleNamespace(headers={"ce-id": "one"}))
    stream = Stream(kept={7: first})
    stream.watch(CommittedEventsArePublishedOnce)
    events = [SimpleNamespace(id="one", subject=subject_of(window))]
    stream.step(Kind.COMMITTED, "ingestion", SimpleNamespace(events=events))
    stream.stored(window, id="one", stream="WINDOWS", sequence=7)
    if not is_found:
        stream.stored(window, id="one", stream="WINDOWS", sequence=sequence)
        return
    with pytest.raises(Violation, match="stored at"):
        stream.stored(window, id="one", stream="WINDOWS", sequence=sequence)
