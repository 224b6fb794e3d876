"""Replicas that share one store of strategy documents and one of nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from colocation_memory import MemoryColocationStore, followers_of
from tests.support.clock import FakeClock
from tests.support.resources import MemoryResourceStore
from tests.support.windows import START, described, window

from slackwater.bus.port import Received
from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy
from slackwater.colocation.usecases.follow_strategies import follow_strategies, publish_document_problems
from slackwater.colocation.usecases.preview_strategies import OffersWanted, StrategyPreview
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce, StrategyHooks
from slackwater.colocation.usecases.strategy_set import Kept
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.resources.change import Change, ChangeResources
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY

OWN = "slackwater.io/colocation-strategy"


class DocumentCounts:
    """The numbers of documents on the meter."""

    def __init__(self) -> None:
        self.followed = self.unusable = -1

    def policies(self, followed: int, unusable: int) -> None:
        self.followed, self.unusable = followed, unusable


class Replica:
    """One process with colocation in it."""

    def __init__(
        self, documents: MemoryResourceStore | None = None, nodes: MemoryColocationStore | None = None, **settings: Any
    ) -> None:
        self.documents = documents or MemoryResourceStore(COLOCATION_STRATEGY)
        self.store = nodes or MemoryColocationStore()
        self.clock = FakeClock(START + timedelta(seconds=60))
        self.meter = DocumentCounts()
        self.followers = followers_of(self.store)
        self.hooks = StrategyHooks(ColocationSettings(**settings).base(), self.followers, self.clock)
        self.in_force = StrategiesInForce(self.documents, self.hooks, self.meter)
        self.change = ChangeResources(COLOCATION_STRATEGY, self.documents, self.in_force, self.hooks)
        self.offering = Offering(self.store, self.in_force, self.clock)
        self.events = ColocationEvents(self.offering)

    async def offers_with(self, done: Change[ColocationStrategy, Kept], most: int) -> StrategyPreview:
        """What nodes would offer after a change that was only tried."""
        assert done.would is not None
        answer = await self.hooks.preview(self.in_force.now, done.would, OffersWanted(most))
        assert answer is not None
        return answer

    async def open(self) -> Replica:
        await self.in_force.load()
        return self

    async def put(self, name: str, /, **spec: Any) -> None:
        await self.change.put(strategy(name, **spec))

    async def describe(self, node: str, number: int = 0, **facts: Any) -> None:
        """With `pool`, `labels` and `annotations` as given."""
        event = described(node, number=number)
        data = event.data.model_copy(update={"facts": replace(event.data.facts, **facts)})
        await self.events.on_described([received(event.model_copy(update={"data": data}))])

    async def measure(self, node: str, number: int, cpu: int = 500) -> None:
        await self.clock.advance(max(0.0, (START + timedelta(minutes=number + 1) - self.clock.now()).total_seconds()))
        await self.events.on_usage([received(window(node, number, {"p": cpu}))])

    async def node(self, node: str, **facts: Any) -> None:
        """Described and measured; its only pod holds the 2000 milli-cores it asked for, the system 300."""
        await self.describe(node, **facts)
        await self.measure(node, 0)

    async def follow(self) -> int:
        """What is done when strategies have changed."""
        await publish_document_problems(self.offering, self.followers, self.in_force)
        return await follow_strategies(self.offering, self.followers)

    def offers(self, node: str) -> list[ResourcesOffered]:
        found = [event.data for event in self.store.outbox if isinstance(event.data, ResourcesOffered)]
        return [offer for offer in found if offer.node == node]

    def records(self, node: str) -> list[DecisionRecord]:
        found = [event.data.record for event in self.store.outbox if isinstance(event.data, DecisionRecorded)]
        return [record for record in found if record.node == node]

    def checked(self) -> list[StrategyChecked]:
        return [event.data for event in self.store.outbox if isinstance(event.data, StrategyChecked)]


def received(event: Event[Any]) -> Received[Any]:
    return Received(event, 1, 1, event.data.key())


def document(name: str, generation: int = 0, /, **spec: Any) -> dict[str, Any]:
    """As an operator writes it."""
    metadata: dict[str, Any] = {"name": name} | ({"generation": generation} if generation else {})
    return {"apiVersion": "slackwater.io/v1alpha1", "kind": "ColocationStrategy", "metadata": metadata, "spec": spec}


def strategy(name: str, generation: int = 0, /, **spec: Any) -> ColocationStrategy:
    return ColocationStrategy.parse(document(name, generation, **spec))
