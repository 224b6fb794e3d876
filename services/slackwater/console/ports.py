"""Ports of the console: a read model to write and to query."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from slackwater.bus.port import StreamHead
from slackwater.console.domain.dead_letter_views import ReplayView
from slackwater.console.domain.demo_run import DemoRunView
from slackwater.console.domain.event_log import EventFilter, ListedEvent
from slackwater.console.domain.fleet import FleetLevel, Gained, NodeQuery, Totals
from slackwater.console.domain.loop import LoopTime, ProcessView
from slackwater.console.domain.moves import MeasuredLoad, MoveCount, MoveHold
from slackwater.console.domain.offer_table import OfferTable
from slackwater.console.domain.pod_story import PodIdentity
from slackwater.console.domain.pools import PoolRow, PoolSums
from slackwater.console.domain.quota_points import QuotaPoint
from slackwater.console.domain.resources import ResourceView
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
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.model.nodes import NodeFacts


class Writes(Protocol):
    """Every write is an upsert by id or by newest time, so that a redelivered batch changes nothing."""

    async def save_facts(self, rows: Sequence[tuple[NodeFacts, str, datetime]]) -> None:
        """Facts, boot epoch, described_at: keeps the newest per node."""
        ...

    async def save_liveness(self, rows: Sequence[tuple[str, str, datetime]]) -> None:
        """Node, liveness, changed_at: keeps the newest per node."""
        ...

    async def delete_nodes(self, rows: Sequence[tuple[str, datetime]]) -> None:
        """Node, deleted_at: drops what is current of a node that was neither described nor reported since. History and
        records stay.
        """
        ...

    async def save_conditions(self, rows: Sequence[tuple[str, NodeCondition]]) -> None:
        """Node, condition: keeps the last reported one, unchanged. There is one type."""
        ...

    async def save_usage(self, rows: Sequence[tuple[UsagePoint, Sequence[PodView]]]) -> None:
        """Points are stored as history; the newest per node is its latest usage, with its pods."""
        ...

    async def save_forecasts(self, rows: Sequence[ForecastView]) -> None: ...

    async def save_offers(self, rows: Sequence[OfferView]) -> None: ...

    async def save_decisions(self, rows: Sequence[DecisionRecord]) -> None: ...

    async def save_effects(self, rows: Sequence[EffectView]) -> None: ...

    async def save_observations(self, rows: Sequence[ObservationView]) -> None: ...

    async def save_evictions(self, rows: Sequence[EvictionView]) -> None: ...

    async def save_level(self, level: FleetLevel, at: datetime) -> None:
        """Store a level under a round time; the first one stays."""
        ...

    async def save_windows(self, rows: Sequence[WindowView]) -> None: ...

    async def save_processes(self, rows: Sequence[ProcessView]) -> None:
        """Keeps the newest report per process; removes processes that have been silent for long."""
        ...

    async def save_strategies(self, rows: Sequence[StrategyView]) -> None:
        """Keeps the newest per document."""
        ...

    async def save_events(self, rows: Sequence[ListedEvent]) -> None:
        """The first of an id stays."""
        ...

    async def save_resources(self, rows: Sequence[ResourceView]) -> None:
        """Keeps the newest generations per document."""
        ...

    async def save_quota_ledgers(self, rows: Sequence[QuotaAccounted]) -> None:
        """Keeps the newest per tree and `ledger_time`: one of them is the tree's present, the others its history."""
        ...

    async def save_moves(self, rows: Sequence[MigrationChanged]) -> None:
        """Keeps the newest per job."""
        ...

    async def note_replay(self, replay: ReplayView) -> bool:
        """Record a replay. False if this replay of the letter is recorded already."""
        ...

    async def delete_replay(self, replay: ReplayView) -> None: ...

    async def prune(self, usage_before: datetime, decisions_before: datetime) -> None:
        """Delete usage, forecasts, offers and ledgers that a newer one replaces before the first time; decisions,
        outcomes, ended moves and listed events before the second.
        """
        ...


class FleetReads(Protocol):
    """Fleet-wide reads. `fresh_after`: least time of a fresh report. `waterline`: the limit on prod CPU pressure."""

    async def level(self, at: datetime, fresh_after: datetime) -> FleetLevel:
        """The current sums over one row per node; `at` is only recorded."""
        ...

    async def levels(self, since: datetime, until: datetime, step_seconds: int) -> Sequence[FleetLevel]:
        """Stored levels averaged per step, oldest first. A step without levels is absent."""
        ...

    async def gained(self, since: datetime, until: datetime) -> Gained:
        """The lent and used capacity, from the stored levels."""
        ...

    async def totals(self, fresh_after: datetime, waterline: float) -> Totals: ...

    async def pools(self, fresh_after: datetime, waterline: float) -> Sequence[PoolRow]:
        """The pools; those that need attention first."""
        ...

    async def nodes_beyond(self, fresh_after: datetime, limit: int) -> Sequence[NodeView]:
        """The nodes whose batch and free pods use more than its offer, the largest excess of CPU first."""
        ...

    async def pool_sums(self, pool: str) -> PoolSums | None:
        """None if no node of this pool was ever described."""
        ...

    async def pool_offers(self, pool: str, after: str, limit: int) -> Sequence[OfferView]:
        """The offers in force of a pool's nodes with a name after `after`, by node."""
        ...

    async def nodes_shown(
        self, wanted: NodeQuery, fresh_after: datetime, waterline: float
    ) -> tuple[int, Sequence[NodeView]]:
        """The total number of nodes, and this page of them: those that need attention first, then by name."""
        ...

    async def throttled_pods(self, fresh_after: datetime, limit: int) -> Sequence[PodView]:
        """Throttled pods, those of the nodes under the highest pressure first."""
        ...

    async def actions_on(self, nodes: Sequence[str], since: datetime, limit: int) -> Sequence[DecisionSummary]:
        """Throttles and restores of these nodes, newest first."""
        ...


class StrategyReads(Protocol):
    """Reads of ColocationStrategies in effect."""

    async def strategies(self) -> Sequence[StrategyView]:
        """Every reported document, by name."""
        ...

    async def followers(self) -> Mapping[str, int]:
        """The number of nodes whose offer in force names each source, such as `pool/web@2`."""
        ...


class EventReads(Protocol):
    """Reads of listed events."""

    async def events(self, wanted: EventFilter) -> Sequence[ListedEvent]:
        """Newest first."""
        ...


class ResourceReads(Protocol):
    """Reads of the documents of resource kinds."""

    async def resource_counts(self) -> Mapping[str, int]:
        """The number of documents by kind."""
        ...

    async def resources(self, kind: str) -> Sequence[ResourceView]:
        """The documents of a kind in their newest generation, by name."""
        ...

    async def resource_generations(self, kind: str, name: str) -> Sequence[ResourceView]:
        """The kept generations of a document, the newest first."""
        ...


class QuotaReads(Protocol):
    """Ledgers of quota trees."""

    async def quota_ledgers(self) -> Sequence[QuotaAccounted]:
        """The newest ledger of every tree, by tree."""
        ...

    async def quota_points(
        self, tree: str, resource: str, since: datetime, until: datetime, step_seconds: int
    ) -> Sequence[QuotaPoint]:
        """The figures of all quotas of a tree in one resource: the last of each step, oldest first."""
        ...


class MoveReads(Protocol):
    """Jobs of migration, and the loads that they even out."""

    async def move_counts(self, since: datetime) -> Sequence[MoveCount]:
        """How many jobs are in each state: all that live, and those that ended since."""
        ...

    async def move_holds(self, limit: int) -> Sequence[MoveHold]:
        """What holds waiting jobs, the most jobs first."""
        ...

    async def moves(self, since: datetime, limit: int) -> Sequence[MigrationChanged]:
        """Jobs under way, then those that wait, then those that ended since; of each the newest change first."""
        ...

    async def gain_records(self, jobs: Sequence[MigrationChanged]) -> Sequence[DecisionRecord]:
        """The newest record of the measured gain of each of these jobs that has one, by job."""
        ...

    async def node_loads(self, at: datetime, after: datetime) -> Sequence[MeasuredLoad]:
        """What each described node used by its last report within `after < sampled <= at`, by node."""
        ...


class LoopReads(Protocol):
    """Reads of the control loop's health."""

    async def loop_times(self, since: datetime, limit: int) -> Sequence[LoopTime]:
        """Times of throttles, restores and evictions, newest first."""
        ...

    async def processes(self) -> Sequence[ProcessView]:
        """The last report of every process."""
        ...

    async def replays(self, identities: Sequence[str]) -> Sequence[ReplayView]:
        """The replays of these letters, in their order."""
        ...


class ReadQueries(EventReads, FleetReads, LoopReads, MoveReads, QuotaReads, StrategyReads, ResourceReads, Protocol):
    """Lists are sorted as their docstrings say; unknown names give None or an empty list, never an error. Conditions
    are as reported: slackwater.console.domain.conditions.as_of evaluates their expiry.
    """

    async def nodes(self) -> Sequence[NodeView]:
        """Nodes by name, each with its latest usage and offer."""
        ...

    async def node(self, name: str) -> NodeView | None: ...

    async def pods(self, node: str | None = None) -> Sequence[PodView]:
        """Pods by node, tier and name."""
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
        """Running pods with this name or uid (on `node`, or anywhere), and pods that decisions have considered."""
        ...

    async def decisions_about(
        self, pod_uid: str, limit: int, until: datetime | None, kind: DecisionKind | None = None
    ) -> Sequence[DecisionRecord]:
        """The decisions that chose or spared the pod, newest first; of one kind if given."""
        ...

    async def decision_at(self, node: str, subject: str, at: datetime) -> DecisionRecord | None:
        """The newest decision about `subject` at or before `at`."""
        ...

    async def event(self, event_id: str) -> UsagePoint | ForecastView | WindowView | None:
        """The object of an event id, if it is stored."""
        ...

    async def effect(self, decision_id: str) -> EffectView | None: ...

    async def observations(self, decision_id: str) -> Sequence[ObservationView]:
        """The observations that wrote a limit for the decision, oldest first."""
        ...

    async def last_observation(self, node: str) -> ObservationView | None: ...

    async def evictions(self, decision_id: str) -> Sequence[EvictionView]: ...

    async def counts(self) -> Counts: ...

    async def subjects(self, node: str) -> Sequence[str]:
        """The subjects of a node's decisions, sorted."""
        ...


class ReadModel(Writes, ReadQueries, Protocol):
    """Reads and writes."""

    async def ping(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class OfferSight:
    """A continuous read of the log of offers: the table it filled, and the log's epoch, in which its positions are
    valid.
    """

    table: OfferTable
    epoch: str


class OfferLog(Protocol):
    """The newest offer of every node, kept current for any number of watchers."""

    @property
    def sight(self) -> OfferSight | None:
        """A new object after the log was recreated, because the positions of the former are invalid in it."""
        ...

    @property
    def as_of(self) -> datetime:
        """Every event published before this time is in the table."""
        ...

    def watching(self) -> AbstractContextManager[None]:
        """Registers a watcher; nothing is read without one."""
        ...

    async def ready(self) -> OfferSight:
        """The table once it is complete. Raises Unavailable if that takes too long."""
        ...

    async def end(self) -> StreamHead:
        """The end of the log now. Raises Unavailable."""
        ...

    async def changed(self, leaving: asyncio.Event) -> None:
        """Return when the table, the sight or `as_of` changed, or when leaving."""
        ...


class DemoRuns(Protocol):
    """The last run of the demo on this machine."""

    async def last(self) -> DemoRunView | None:
        """The run with the scenes so far; None without one."""
        ...

    async def picture(self, scene: str) -> bytes | None:
        """The SVG of a scene of the last run; None if it has none."""
        ...
