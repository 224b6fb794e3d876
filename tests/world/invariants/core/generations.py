"""Documents and offers of a node are numbered without repetition, and agents follow the newest document."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.resources_offered import ResourcesOffered


class GenerationsAreUsedOnce(Invariant):
    """A generation of a node's offer or document has one content, and generations follow each other without a gap."""

    NAME = "generations are used once"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._contents: dict[tuple[str, str, int], Any] = {}
        self._newest: dict[tuple[str, str], int] = {}

    def on_step(self, step: Step) -> None:
        if (offer := payload_of(step, ResourcesOffered)) is not None:
            self._check("offer", offer.node, offer.generation, offer)
        elif (intent := payload_of(step, IntentDeclared)) is not None:
            wanted = (intent.throttles, intent.memory_throttles, intent.evictions)
            self._check(f"document of {intent.writer}", intent.node, intent.generation, wanted)

    def _check(self, what: str, node: str, generation: int, content: Any) -> None:
        before = self._contents.setdefault((what, node, generation), content)
        if before != content:
            raise Violation(f"generation {generation} of the {what} for {node} is {before} and {content}")
        newest = self._newest.get((what, node), 0)
        if newest and not newest - 1 <= generation <= newest + 1:
            raise Violation(f"generation {generation} of the {what} for {node} follows {newest}")
        self._newest[what, node] = max(newest, generation)


class AgentsFollowTheNewestDocument(Invariant):
    """Whenever a report of a node is stored, its agent holds no older document of a writer than before; at rest it
    holds the newest one. A document from before a restart does not count: the first one that the process receives
    replaces it, because the broker may have lost the newer ones, and the writer declares again."""

    NAME = "agents follow the newest document"
    KINDS: ClassVar = (Kind.STORED, Kind.STARTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._held: dict[str, tuple[Any, int]] = {}
        """By agent, its service (a restarted agent has another one) and the generation."""
        self._started: dict[str, float] = {}
        """By agent, when its process started, by its own clock."""
        self._declared: dict[str, IntentDeclared] = {}
        self._stored: dict[tuple[str, int], int] = {}
        """The step at which a document of a node and generation was stored last: a replica whose commit had no answer
        declares the generation before it again."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STARTED:
            agent = step.subject.partition("/")[0]
            self._started[agent] = self.world.clock_of(agent).monotonic()
        elif (intent := payload_of(step, IntentDeclared)) is not None:
            self._declared[intent.node] = intent
            self._stored[intent.node, intent.generation] = step.n
        else:
            self._check(step.process)

    def _check(self, agent: str) -> None:
        station = self.world.stations.get(agent)
        generation = None if station is None else self._generation(agent)
        if station is None or generation is None:
            return
        service, before = self._held.get(agent, (None, 0))
        is_older = self._stored.get((station.node, generation), 0) < self._stored.get((station.node, before), 0)
        if service is station.service and generation < before and is_older:
            raise Violation(f"{agent} followed generation {before} and now follows generation {generation}")
        self._held[agent] = station.service, generation

    def at_rest(self) -> None:
        for name, station in self.world.stations.items():
            declared, generation = self._declared.get(station.node), self._generation(name)
            if declared is not None and generation is not None and generation != declared.generation:
                raise Violation(f"{name} follows generation {generation}; {declared.generation} was declared last")

    def _generation(self, agent: str) -> int | None:
        """The generation of ensurance's document that the agent has received and holds."""
        service = self.world.stations[agent].service
        states = () if service is None else service.desired_states()
        started = self._started.get(agent, 0.0)
        return next((one.generation for one in states if one.writer == "ensurance" and one.received >= started), None)


INVARIANTS = (GenerationsAreUsedOnce, AgentsFollowTheNewestDocument)
