"""What the console's use cases and edges need: a read model to write and to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from slackwater.bus.port import Mark
from slackwater.console.domain.fleet import FleetLevel, Gained, NodeQuery, Totals
from slackwater.console.domain.letters import ReplayView
from slackwater.console.domain.loop import LoopTime, ProcessView
from slackwater.console.domain.offer_table import OfferTable
from slackwater.console.domain.pod_story import PodIdentity
from slackwater.console.domain.pools import PoolRow, PoolSums
from slackwater.console.domain.strategies import StrategyView
from slackwater.console.domain.views import (
    Counts,
    DecisionFilter,
    DecisionSummary,
    EffectView,
    EvictionView,
    ForecastView,
    NodeCondition,
    NodeView,
    ObservationView,
    OfferView,
    PodView,
    UsagePoint,
    WindowView,
)
from slackwater.decisions.record import DecisionRecord
from slackwater.model.nodes import NodeFacts


class Writes(Protocol):
    """Everything is an upsert by id or by newest time, so a redelivered batch changes nothing."""

    async def save_facts(self, rows: Sequence[tuple[NodeFacts, str, datetime]]) -> None:
        """Facts, boot epoch, described_at: the newest per node stays."""
        ...

    async def save_liveness(self, rows: Sequence[tuple[str, str, datetime]]) -> None:
        """Node, liveness, changed_at: the newest per node stays."""
        ...

    async def save_conditions(self, rows: Sequence[tuple[str, NodeCondition]]) -> None:
        """Node, condition: the one that was told last stays, as it was told. There is one type."""
        ...

    async def save_usage(self, rows: Sequence[tuple[UsagePoint, Sequence[PodView]]]) -> None:
        """Points are kept as history; the newest per node is its latest usage, with its pods."""
        ...

    async def save_forecasts(self, rows: Sequence[ForecastView]) -> None: ...

    async def save_offers(self, rows: Sequence[OfferView]) -> None: ...

    async def save_decisions(self, rows: Sequence[DecisionRecord]) -> None: ...

    async def save_effects(self, rows: Sequence[EffectView]) -> None: ...

    async def save_observations(self, rows: Sequence[ObservationView]) -> None: ...

    async def save_evictions(self, rows: Sequence[EvictionView]) -> None: ...

    async def save_level(self, level: FleetLevel, at: datetime) -> None:
        """Keep a level under a round time; the first one kept stays."""
        ...

    async def save_windows(self, rows: Sequence[WindowView]) -> None: ...

    async def save_processes(self, rows: Sequence[ProcessView]) -> None:
        """The newest report per process stays; those that are long silent are forgotten."""
        ...

    async def save_strategies(self, rows: Sequence[StrategyView]) -> None:
        """The newest per document stays."""
        ...

    async def note_replay(self, replay: ReplayView) -> bool:
        """False if this replay of the letter is noted already."""
        ...

    async def forget_replay(self, replay: ReplayView) -> None: ...

    async def prune(self, usage_before: datetime, decisions_before: datetime) -> None:
        """Forget usage, forecasts and offers before the first time, decisions and outcomes before the second."""
        ...


class FleetReads(Protocol):
    """The fleet as a whole. `fresh_after`: which reports count. `waterline`: above it prod CPU pressure is too high."""

    async def level(self, at: datetime, fresh_after: datetime) -> FleetLevel:
        """The sums of now over one row per node; `at` is only written down."""
        ...

    async def levels(self, since: datetime, until: datetime, step_seconds: int) -> Sequence[FleetLevel]:
        """Kept levels averaged per step, oldest first. A step without any is absent."""
        ...

    async def gained(self, since: datetime, until: datetime) -> Gained:
        """What was lent and used, from the kept levels."""
        ...

    async def totals(self, fresh_after: datetime, waterline: float) -> Totals: ...

    async def pools(self, fresh_after: datetime, waterline: float) -> Sequence[PoolRow]:
        """Those that need somebody first."""
        ...

    async def pool_sums(self, pool: str) -> PoolSums | None:
        """None if no node of this pool was ever described."""
        ...

    async def pool_offers(self, pool: str, after: str, limit: int) -> Sequence[OfferView]:
        """The offers in force of a pool's nodes, by node, of those with a name behind `after`."""
        ...

    async def nodes_shown(
        self, wanted: NodeQuery, fresh_after: datetime, waterline: float
    ) -> tuple[int, Sequence[NodeView]]:
        """How many there are in all, and this page of them: those that need somebody first, then by name."""
        ...

    async def throttled_pods(self, fresh_after: datetime, limit: int) -> Sequence[PodView]:
        """Of the nodes under the highest pressure first."""
        ...

    async def actions_on(self, nodes: Sequence[str], since: datetime, limit: int) -> Sequence[DecisionSummary]:
        """Throttles and restores of these nodes, newest first."""
        ...

    async def waterline(self, node: str | None) -> float | None:
        """The waterline on prod CPU pressure that the newest effect names (of this node, or of any)."""
        ...


class StrategyReads(Protocol):
    """ColocationStrategies as they are followed."""

    async def strategies(self) -> Sequence[StrategyView]:
        """Every document that was ever told of, by name."""
        ...

    async def followers(self) -> Mapping[str, int]:
        """How many nodes' offers in force name each source, like `pool/web@2`."""
        ...


class LoopReads(Protocol):
    """The control loop itself."""

    async def loop_times(self, since: datetime, limit: int) -> Sequence[LoopTime]:
        """Of throttles, restores and evictions, newest first."""
        ...

    async def processes(self) -> Sequence[ProcessView]:
        """The last report of every process."""
        ...

    async def replays(self, identities: Sequence[str]) -> Sequence[ReplayView]:
        """Of these letters, in the order they were replayed."""
        ...


class Reads(FleetReads, LoopReads, StrategyReads, Protocol):
    """Lists are sorted as their docstrings say; unknown names give None or nothing, never an error. Conditions are as
    they were told: slackwater.console.domain.conditions.as_of says which still count."""

    async def nodes(self) -> Sequence[NodeView]:
        """By name, each with its latest usage and offer."""
        ...

    async def node(self, name: str) -> NodeView | None: ...

    async def pods(self, node: str | None = None) -> Sequence[PodView]:
        """By node, tier and name."""
        ...

    async def usage(self, node: str, since: datetime, until: datetime) -> Sequence[UsagePoint]:
        """Oldest first, both ends included."""
        ...

    async def forecasts(self, node: str, since: datetime, until: datetime) -> Sequence[ForecastView]:
        """Oldest first; begins with the one in force at `since`, if there is one."""
        ...

    async def offers(self, node: str | None, since: datetime, until: datetime) -> Sequence[OfferView]:
        """Oldest first; begins per node with the one in force at `since`, if there is one."""
        ...

    async def offer_at(self, node: str, at: datetime) -> OfferView | None: ...

    async def decisions(self, wanted: DecisionFilter) -> Sequence[DecisionSummary]:
        """Newest first."""
        ...

    async def decision(self, decision_id: str) -> DecisionRecord | None: ...

    async def pods_called(self, name: str, node: str | None = None) -> Sequence[PodIdentity]:
        """Those with this name or uid that run (on `node`, or anywhere), and those that decisions have looked at."""
        ...

    async def decisions_about(self, pod_uid: str, limit: int, until: datetime | None) -> Sequence[DecisionRecord]:
        """Those that chose or spared the pod, newest first."""
        ...

    async def decision_at(self, node: str, subject: str, at: datetime) -> DecisionRecord | None:
        """The newest decision about `subject` at or before `at`."""
        ...

    async def event(self, event_id: str) -> UsagePoint | ForecastView | WindowView | None:
        """What an event id stands for, if it is kept."""
        ...

    async def effect(self, decision_id: str) -> EffectView | None: ...

    async def observations(self, decision_id: str) -> Sequence[ObservationView]:
        """Those that wrote a limit for the decision, oldest first."""
        ...

    async def last_observation(self, node: str) -> ObservationView | None: ...

    async def evictions(self, decision_id: str) -> Sequence[EvictionView]: ...

    async def counts(self) -> Counts: ...

    async def subjects(self, node: str) -> Sequence[str]:
        """What has been decided about a node, sorted."""
        ...


class ReadModel(Writes, Reads, Protocol):
    """Both sides."""

    async def ping(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class OfferSight:
    """One unbroken look at the log of offers: the table it filled, and the life of the log that its positions mean."""

    table: OfferTable
    epoch: str


class OfferLog(Protocol):
    """The newest offer of every node, kept up to date for as many watchers as come."""

    @property
    def sight(self) -> OfferSight | None:
        """Another object when the log began anew: positions of the former mean nothing in it."""
        ...

    @property
    def as_of(self) -> datetime:
        """Everything published before this is in the table."""
        ...

    def watching(self) -> AbstractContextManager[None]:
        """Somebody watches: until then nothing needs to be read."""
        ...

    async def ready(self) -> OfferSight:
        """The table once it holds everything. Raises Unavailable if that takes too long."""
        ...

    async def end(self) -> Mark:
        """The end of the log now. Raises Unavailable."""
        ...

    async def changed(self, leaving: asyncio.Event) -> None:
        """Return when the table, the sight or `as_of` changed, or when leaving."""
        ...


class Meter(Protocol):
    """What operators watch."""

    def recorded(self, event: str, delay_seconds: float) -> None:
        """One event of a type is in the read model, so long after its time."""
        ...
