"""What colocation knows of one node between two events, with the source of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from slackwater.colocation.domain.gating import Gate
from slackwater.colocation.domain.layers import NodeWords, last_good_words
from slackwater.colocation.domain.node_notes import NodeNotes, NodeStatus
from slackwater.colocation.domain.node_offer import Gates, NodeOffer
from slackwater.colocation.domain.snapshot import HostApp, PodUse, Zone
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Source:
    """The event a part comes from, and the time the part speaks of."""

    event_id: str
    at: datetime


@record(frozen=True, slots=True)
class KnownPeak:
    """The predicted peak of a pod; `cold` if its request stands in."""

    peak: Resources
    cold: bool


@record(frozen=True, slots=True)
class NodeState:
    """One node. A part whose source is None has never been told; times without a zone are seconds since 1970.

    `window_end` is the end of the newest window, `whole_end` that of the newest one that told everything (0: as
    `window_end`); the age of usage counts from there. `due_at`: from when on the offer changes with no news at all.
    `cpu` and `memory` are the gates of batch. `zones` is what batch may use of each NUMA zone since the last decision,
    `strategies` what the strategy was merged from when an offer was told last, `told_by` that
    offer.
    """

    node: str
    capacity: Resources = field(default_factory=Resources)
    reserved: Resources = field(default_factory=Resources)
    described_by: Source | None = None
    lost: bool = False
    liveness_by: Source | None = None
    pods: tuple[PodUse, ...] = ()
    system: Resources | None = None
    system_is_current: bool = False
    window_end: int = 0
    used_by: Source | None = None
    peaks: Mapping[str, KnownPeak] = field(default_factory=dict)
    predicted_by: Source | None = None
    cpu: Gate = field(default_factory=Gate)
    memory: Gate = field(default_factory=Gate)
    generation: int = 0
    degraded: str | None = None
    pool: str = "default"
    words: NodeWords = field(default_factory=NodeWords)
    """Its labels, and its annotations about strategies."""
    good_words: NodeWords | None = None
    """What stands in for words that cannot be used: what was said there last that could be. None: all can be."""
    strategy_problem: str = ""
    """Why the strategy that was decided by last is not the one which the node's own words ask for."""
    due_at: int = 0
    mid_cpu: Gate = field(default_factory=Gate)
    mid_memory: Gate = field(default_factory=Gate)
    zones: Mapping[str, Resources] = field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    numa: tuple[Zone, ...] = ()
    node_usage: Resources | None = None
    prod_peak: Resources | None = None
    system_by: Source | None = None
    host_apps: tuple[HostApp, ...] = ()
    """As the newest window told: one that it does not tell is not there."""
    whole_end: int = 0
    notes: NodeNotes = field(default_factory=NodeNotes)
    status: NodeStatus | None = None
    """What was told last of the node's status; None where that is the offer itself."""
    told_by: Source | None = None

    @property
    def batch(self) -> Resources:
        """In force; nothing before the first offer."""
        return Resources(self.cpu.published or 0, self.memory.published or 0)

    @property
    def mid(self) -> Resources:
        return Resources(self.mid_cpu.published or 0, self.mid_memory.published or 0)

    @property
    def offers_something(self) -> bool:
        return any(gate.published for gate in (self.cpu, self.memory, self.mid_cpu, self.mid_memory))

    @property
    def gates(self) -> Gates:
        return Gates(self.mid_cpu, self.mid_memory, self.cpu, self.memory)

    @property
    def informed_at(self) -> int:
        """As of when usage is known, wholly."""
        return self.whole_end or self.window_end


@record(frozen=True, slots=True)
class Measured:
    """One window of a node. `node_usage` and `system` are None where they were not measured; `is_whole`: enough of it
    was heard to go on as before."""

    pods: tuple[PodUse, ...]
    node_usage: Resources | None
    system: Resources | None
    end: int
    is_whole: bool = True
    host_apps: tuple[HostApp, ...] = ()


@record(frozen=True, slots=True)
class PoolTotals:
    """One pool: what its nodes have and offer together, and how many offer more than they have (never any)."""

    pool: str
    capacity: Resources
    batch: Resources
    mid: Resources
    nodes: int
    overoffered: int


def is_older(source: Source, known: Source | None) -> bool:
    """Whether what just arrived speaks of an earlier time than what is known: then it is not news."""
    return known is not None and source.at < known.at


def with_description(
    state: NodeState,
    capacity: Resources,
    reserved: Resources,
    source: Source,
    pool: str = "default",
    numa: tuple[Zone, ...] = (),
    words: NodeWords | None = None,
    notes: NodeNotes | None = None,
) -> NodeState:
    if is_older(source, state.described_by):
        return state
    now = (words or NodeWords()).kept()
    return replace(
        state,
        capacity=capacity,
        reserved=reserved,
        described_by=source,
        pool=pool,
        numa=numa,
        notes=notes or NodeNotes(),
        words=now,
        good_words=last_good_words(now, state.words, state.good_words),
    )


def with_liveness(state: NodeState, lost: bool, source: Source) -> NodeState:
    if is_older(source, state.liveness_by):
        return state
    return replace(state, lost=lost, liveness_by=source)


def with_usage(state: NodeState, measured: Measured, source: Source) -> NodeState:
    """The system's last known value stays when this window has none. A window that tells not everything is believed,
    but does not make usage any younger."""
    if measured.end < state.window_end:
        return state
    told = measured.system is not None
    whole = measured.is_whole and (told or state.system is None)
    return replace(
        state,
        pods=measured.pods,
        node_usage=measured.node_usage,
        system=measured.system if told else state.system,
        system_is_current=told,
        system_by=source if told else state.system_by,
        host_apps=measured.host_apps,
        window_end=measured.end,
        whole_end=measured.end if whole else state.informed_at or measured.end,
        used_by=source,
    )


def with_peaks(
    state: NodeState, peaks: Mapping[str, KnownPeak], source: Source, prod_peak: Resources | None = None
) -> NodeState:
    if is_older(source, state.predicted_by):
        return state
    return replace(state, peaks=peaks, predicted_by=source, prod_peak=prod_peak)


def with_offer(state: NodeState, offer: NodeOffer, degraded: str | None, due_at: int) -> NodeState:
    """What is in force once this was decided."""
    return replace(
        state,
        mid_cpu=offer.mid.cpu.gate,
        mid_memory=offer.mid.memory.gate,
        cpu=offer.batch.cpu.gate,
        memory=offer.batch.memory.gate,
        zones={zone.name: zone.batch for zone in offer.zones},
        degraded=degraded,
        due_at=due_at,
        status=state.notes.status_of(offer.batch.value),
    )
