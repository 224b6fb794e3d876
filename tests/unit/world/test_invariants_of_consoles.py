"""Figures that differ from the true state, and events that a stream repeats or leaves out, are found."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.console.read_model import MemoryReadModel
from tests.world.consoles import parsed
from tests.world.invariants import Violation
from tests.world.invariants.console.figures import ConsoleShowsTheTrueState, at_once
from tests.world.invariants.console.stream import StreamsShowEventsOnce
from tests.world.plan import Plan
from tests.world.trace import Kind, Step

READER, SUBJECT = "reader-0", "sw.v1.effect.measured.3.node-00.e"


def world(seconds: float = 100.0, **more: Any) -> Any:
    readers = [SimpleNamespace(name=READER)]
    loop = SimpleNamespace(time=lambda: seconds)
    return SimpleNamespace(loop=loop, plan=Plan(1, consoles=1), stations={}, stream_readers=readers, **more)


def stored(at: float, identity: str) -> Step:
    return Step(1, at, "agent-00", Kind.STORED, SUBJECT, detail={"id": identity})


def read(at: float, identity: str, event: str = "effect.measured") -> Step:
    return Step(1, at, READER, Kind.READ, event, detail={"id": identity, "place": "DECISIONS:1"})


def test_an_event_that_a_reader_sees_twice_or_never_is_found() -> None:
    invariant = StreamsShowEventsOnce(world())
    for step in (read(1.0, "", "open"), stored(2.0, "a"), read(2.1, "a"), stored(3.0, "b"), stored(95.0, "c")):
        invariant.on_step(step)
    with pytest.raises(Violation, match="never saw b"):
        invariant.at_rest()
    invariant.on_step(read(3.1, "b"))
    invariant.at_rest()  # `c` is on its way
    with pytest.raises(Violation, match="a 2 times"):
        invariant.on_step(read(4.0, "a"))


@pytest.mark.parametrize(
    "excuse",
    [read(3.0, "", "gap"), Step(1, 3.0, "", Kind.FAULT_BEGAN, "broker killed", detail={"target": "broker"})],
    ids=["gap", "broker killed"],
)
def test_an_announced_gap_and_a_broker_that_forgets_excuse_a_reader(excuse: Step) -> None:
    invariant = StreamsShowEventsOnce(world())
    for step in (read(1.0, "", "open"), stored(2.0, "a"), excuse):
        invariant.on_step(step)
    invariant.at_rest()


def test_a_decision_and_a_machine_that_the_console_does_not_show_are_found() -> None:
    body = json.dumps({"record": {"id": "d-1"}}).encode()
    message = SimpleNamespace(body=body, subject="sw.v1.decision.recorded.3.node-00.d-1")
    streams = {"DECISIONS": SimpleNamespace(messages={1: SimpleNamespace(message=message)})}
    here = world(console_model=MemoryReadModel(), broker=SimpleNamespace(jetstreams=streams))
    invariant = ConsoleShowsTheTrueState(here)
    invariant.on_step(Step(1, 90.0, "ensurance-0", Kind.STORED, message.subject, value=message))
    invariant.at_rest()  # on its way
    invariant.on_step(Step(1, 10.0, "ensurance-0", Kind.STORED, message.subject, value=message))
    with pytest.raises(Violation, match="the console has no decision d-1; 1 of 1 lack"):
        invariant.at_rest()
    here.stations["agent-00"] = SimpleNamespace(node="node-00")
    with pytest.raises(Violation, match="does not list node-00"):
        invariant.at_rest()


def test_frames_are_parsed_as_a_client_does() -> None:
    portion = b'retry: 2000\nid: DECISIONS:4\n: open\n\nid: DECISIONS:5\nevent: a.b\ndata: {"id":"x"}\n\n: alive\n\n'
    first, second = parsed(portion)
    assert first == ({}, {"retry": "2000", "id": "DECISIONS:4"})
    assert second == ({"id": "x"}, {"id": "DECISIONS:5", "event": "a.b", "data": '{"id":"x"}'})


async def waits() -> None:
    raise AssertionError


def test_only_what_waits_for_nothing_is_done_at_once() -> None:
    with pytest.raises(AssertionError):
        at_once(waits())
    assert at_once(MemoryReadModel().ping())
