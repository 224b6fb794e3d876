"""What the console shows at rest is the true state."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.console.domain.views import NodeView
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import subject_of
from slackwater.events.resources_offered import ResourcesOffered

T = TypeVar("T")
_RECORDS = f"sw.v1.{DecisionRecorded.TYPE}."
ON_THE_WAY_SECONDS = 15.0
"""Before the end: an event of this time may not be recorded yet."""
PINNED_SECONDS = 75.0
"""A report from so far in the future stays a node's newest one (FUTURE_TOLERANCE of record_events, and a report)."""


class ConsoleShowsTheTrueState(Invariant):
    """At rest the console lists every machine with its capacity, its pods and its last offer, and every decision of
    which a record was stored."""

    NAME = "the console shows the true state"
    KINDS: ClassVar = (Kind.STORED, Kind.FAULT_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._decisions: dict[str, float] = {}
        """By id, when its record was stored."""
        self._offers: dict[str, tuple[float, ResourcesOffered]] = {}
        self._ids: dict[str, str] = {}
        """Of these events."""
        self._jumped_at: dict[str, float] = {}
        """By agent, the end of the last jump of its clock."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.FAULT_ENDED:
            if step.subject == "clock jump":
                self._jumped_at[str(step.detail["target"])] = step.at
        elif step.subject.startswith(_RECORDS):
            self._decisions[json.loads(step.value.body)["record"]["id"]] = step.at
        elif (offer := payload_of(step, ResourcesOffered)) is not None:
            self._offers[offer.node] = step.at, offer
            self._ids[offer.node] = step.detail["id"]

    def at_rest(self) -> None:
        model = self.world.console_model
        if not self.world.plan.consoles:
            return
        nodes = {node.name: node for node in at_once(model.nodes())}
        for name, station in self.world.stations.items():
            if station.node not in nodes:
                raise Violation(f"the console does not list {station.node}; it lists {sorted(nodes)}")
            self._check_node(name, nodes[station.node])
        due = [one for one in self._kept() if self._is_due(self._decisions[one])]
        missing = [one for one in due if not at_once(model.decision(one))]
        if missing:
            raise Violation(f"the console has no decision {missing[0]}; {len(missing)} of {len(due)} lack")

    def _kept(self) -> list[str]:
        """The decisions whose record is in its stream: a broker without power may have lost some unread."""
        stream = self.world.broker.jetstreams[DecisionRecorded.STREAM]
        bodies = (one.message.body for one in stream.messages.values() if one.message.subject.startswith(_RECORDS))
        return [json.loads(body)["record"]["id"] for body in bodies]

    def _check_node(self, agent: str, node: NodeView) -> None:
        machine = self.world.stations[agent].machine
        capacity = None if node.facts is None else node.facts.capacity
        if capacity is None or capacity.cpu_milli != machine.hardware.cpus * 1000:
            raise Violation(f"the console shows {capacity} for {node.name}, which has {machine.hardware.cpus} CPUs")
        stored = self._offers.get(node.name)
        if stored is not None and self._is_due(stored[0]) and not self._may_be_lost(stored[1]):
            shown = None if node.offer is None else (node.offer.generation, node.offer.batch)
            if shown != (stored[1].generation, stored[1].batch):
                raise Violation(f"the console shows the offer {shown} of {node.name}; the last one is {stored[1]}")
        if self.world.loop.time() - self._jumped_at.get(agent, -PINNED_SECONDS) > PINNED_SECONDS:
            running = {one.pod.uid for one in machine.running() if self._is_due(one.since)}
            shown_pods = {pod.uid for pod in at_once(self.world.console_model.pods(node.name))}
            if running - shown_pods:
                raise Violation(f"the console does not show {sorted(running - shown_pods)} of {node.name}")

    def _may_be_lost(self, offer: ResourcesOffered) -> bool:
        """Whether a broker without power has lost the offer: colocation publishes it again in one of ten full passes,
        which may be after the end."""
        stream = self.world.broker.jetstreams[ResourcesOffered.STREAM]
        last = stream.last_on(subject_of(offer))
        return last is None or stream.messages[last].message.headers["ce-id"] != self._ids[offer.node]

    def _is_due(self, at: float) -> bool:
        return self.world.loop.time() - at > ON_THE_WAY_SECONDS


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the read model in memory has waited")


INVARIANTS = (ConsoleShowsTheTrueState,)
