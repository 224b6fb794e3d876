"""Documents and offers of a node are numbered without repetition, and agents follow the newest document."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, ClassVar

from tests.world.faults import FORGETS_MESSAGE_IDS
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.machine.station import FOLDER, Station
from tests.world.plan import BROKER
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.resources_offered import ResourcesOffered

WRITER = "ensurance"
FOLLOWED_SECONDS, READING_SECONDS = 10.0, 20.0
ARRIVED_SECONDS = 2.0
"""A document that is newer at the end may be on its way."""
INTENTS = str(FOLDER / "intents.json")
Place = tuple[int, int]
"""The epoch of a document's owner, and its generation."""
NO_PLACE: Place = (0, 0)


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
    """Whenever a report of a node is stored, its agent holds no older document of a writer than before. It holds the
    newest one at rest, and FOLLOWED_SECONDS after it without faults of the agent, its link and the broker. A later
    owner's document is newer, whatever its generation. After a restart the agent follows none that is older, and was
    declared before, than the one on its disk."""

    NAME = "agents follow the newest document"
    KINDS: ClassVar = (Kind.STORED, Kind.STARTED, Kind.RECOVERED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._remembered: dict[str, IntentDeclared] = {}
        """By node, the document on the disk of its agent when that started."""
        self._declared_at: dict[tuple[str, Place], datetime] = {}
        self._held: dict[str, tuple[Any, Place]] = {}
        """By agent, its service (a restarted agent has another one) and the document's place."""
        self._started: dict[str, float] = {}
        """By agent, when its process started, by its own clock."""
        self._declared: dict[str, IntentDeclared] = {}
        self._since: dict[str, float] = {}
        """By node, when the first document of the newest place was stored."""
        self._stored: dict[tuple[str, Place], int] = {}
        """The step at which a document of a node was stored last: a replica whose commit had no answer declares the
        generation before it again."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STARTED:
            agent = step.subject.partition("/")[0]
            self._started[agent] = self.world.clock_of(agent).monotonic()
        elif step.kind is Kind.RECOVERED:
            self._remember(step.value)
        elif (intent := payload_of(step, IntentDeclared)) is not None:
            if intent.writer == WRITER:
                before = self._declared.get(intent.node)
                if before is None or place_of(before) != place_of(intent):
                    self._since[intent.node] = step.at
                self._declared[intent.node] = intent
                self._declared_at[intent.node, place_of(intent)] = intent.declared_at
                self._stored[intent.node, place_of(intent)] = step.n
        else:
            self._check(step.process, step.at)

    def _check(self, agent: str, now: float) -> None:
        station = self.world.stations.get(agent)
        place = None if station is None else self._place(agent)
        if station is None or place is None:
            return
        service, before = self._held.get(agent, (None, NO_PLACE))
        is_older = self._stored.get((station.node, place), 0) < self._stored.get((station.node, before), 0)
        if service is station.service and place < before and is_older:
            raise Violation(f"{agent} followed {_text(before)} and now follows {_text(place)}")
        if service is not station.service:
            self._check_first(agent, station.node, place)
        declared = self._declared.get(station.node)
        if declared is not None and place < place_of(declared) and self._must_follow(agent, station.node, now):
            raise Violation(f"{agent} still follows {_text(place)}; {_text(place_of(declared))} was declared")
        self._held[agent] = station.service, place

    def _must_follow(self, agent: str, node: str, now: float) -> bool:
        """Whether nothing explains that the newest document has not been received. A reader needs READING_SECONDS after
        a fault. The power of a rack is also the broker's."""
        since = self._since[node]
        targets = agent, f"{agent}>{BROKER}", BROKER
        faults = (one for one in self.world.plan.faults if one.target in targets or one.kind in FORGETS_MESSAGE_IDS)
        is_disturbed = any(one.at <= now and since <= one.at + one.seconds + READING_SECONDS for one in faults)
        return now - since >= FOLLOWED_SECONDS and not is_disturbed

    def _check_first(self, agent: str, node: str, place: Place) -> None:
        """The first document of a process."""
        remembered = self._remembered.get(node)
        if remembered is None or place >= place_of(remembered):
            return
        if self._declared_at[node, place] <= remembered.declared_at:
            before = _text(place_of(remembered))
            raise Violation(f"{agent} had stored {before} before its start and now follows {_text(place)}")

    def _remember(self, station: Station) -> None:
        self._remembered.pop(station.node, None)
        content = station.disk.files().get(INTENTS)
        for raw in json.loads(content) if content else ():
            document = IntentDeclared.model_validate(raw["data"])
            if document.writer == WRITER:
                self._remembered[station.node] = document

    def at_rest(self) -> None:
        for name, station in self.world.stations.items():
            declared, place = self._declared.get(station.node), self._place(name)
            if self.world.loop.time() - self._since.get(station.node, 0.0) < ARRIVED_SECONDS:
                continue
            if declared is not None and place is not None and place != place_of(declared):
                raise Violation(f"{name} follows {_text(place)}; {_text(place_of(declared))} was declared last")

    def _place(self, agent: str) -> Place | None:
        """That of ensurance's document that the agent has received and holds."""
        service = self.world.stations[agent].service
        states = () if service is None else service.desired_states()
        started = self._started.get(agent, 0.0)
        received = (one for one in states if one.writer == WRITER and one.received >= started)
        return next(((one.epoch, one.generation) for one in received), None)


def place_of(document: IntentDeclared) -> Place:
    return document.epoch, document.generation


def _text(place: Place) -> str:
    return f"generation {place[1]} of epoch {place[0]}"


INVARIANTS = (GenerationsAreUsedOnce, AgentsFollowTheNewestDocument)
