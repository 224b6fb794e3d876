"""The state of one node between two events, with the source of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.kept_room import KeptRoom
from slackwater.offers.node_notes import NodeNotes, NodeStatus
from slackwater.offers.node_offer import Gates, NodeOffer
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import HostApp, PodInput, Zone
from slackwater.offers.strategy_layers import NodeOverrides, last_good_overrides


@record(frozen=True, slots=True)
class InputSource:
    """The event a part comes from, and the time that part describes."""

    event_id: str
    at: datetime


@record(frozen=True, slots=True)
class KnownPeak:
    """The predicted peak of a pod; `cold` if its request is used instead."""

    peak: Resources
    cold: bool


@record(frozen=True, slots=True)
class NodeState:
    """One node. A part whose source is None has not been received yet; times without a zone are seconds since 1970.

    `window_end` is the end of the newest window, `whole_end` that of the newest complete one (0: as `window_end`); the
    age of usage counts from there. `due_at`: when the offer changes without further events. `cpu` and `memory` are the
    gates of batch. `zones` is what batch may use of each NUMA zone since the last decision. `strategies` are the
    sources of the strategy of the last published offer, `told_by` is that offer.
    """

    node: str
    capacity: Resources = field(default_factory=Resources)
    reserved: Resources = field(default_factory=Resources)
    described_by: InputSource | None = None
    lost: bool = False
    liveness_by: InputSource | None = None
    pods: tuple[PodInput, ...] = ()
    system: Resources | None = None
    system_is_current: bool = False
    window_end: int = 0
    used_by: InputSource | None = None
    peaks: Mapping[str, KnownPeak] = field(default_factory=dict)
    predicted_by: InputSource | None = None
    cpu: PublishGate = field(default_factory=PublishGate)
    memory: PublishGate = field(default_factory=PublishGate)
    generation: int = 0
    degraded: str | None = None
    pool: str = "default"
    words: NodeOverrides = field(default_factory=NodeOverrides)
    """The node's labels, and its annotations about strategies."""
    good_words: NodeOverrides | None = None
    """Replaces annotations and labels that cannot be used: the last usable ones. None: all can be used."""
    strategy_problem: str = ""
    """Why the strategy of the last decision is not the one that the node's annotations and labels ask for."""
    due_at: int = 0
    mid_cpu: PublishGate = field(default_factory=PublishGate)
    mid_memory: PublishGate = field(default_factory=PublishGate)
    zones: Mapping[str, Resources] = field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    numa: tuple[Zone, ...] = ()
    node_usage: Resources | None = None
    prod_peak: Resources | None = None
    system_by: InputSource | None = None
    host_apps: tuple[HostApp, ...] = ()
    """As in the newest window; applications missing there are left out."""
    whole_end: int = 0
    notes: NodeNotes = field(default_factory=NodeNotes)
    status: NodeStatus | None = None
    """The last published node status; None where it equals the offer."""
    told_by: InputSource | None = None
    kept: tuple[KeptRoom, ...] = ()
    """What reservations keep on the node; expired ones until their publisher removes them."""
    kept_by: InputSource | None = None
    kept_generation: int = 0
    """Of the publisher's ledger."""
    batch_taken: Resources = field(default_factory=Resources)
    """What reservations take off the batch offer in force; the gates hold the value before."""
    mid_taken: Resources = field(default_factory=Resources)

    @property
    def batch(self) -> Resources:
        """Returns the batch offer in force; nothing before the first offer."""
        return Resources(self.cpu.published or 0, self.memory.published or 0) - self.batch_taken

    @property
    def mid(self) -> Resources:
        return Resources(self.mid_cpu.published or 0, self.mid_memory.published or 0) - self.mid_taken

    @property
    def offers_something(self) -> bool:
        return any(gate.published for gate in (self.cpu, self.memory, self.mid_cpu, self.mid_memory))

    @property
    def gates(self) -> Gates:
        return Gates(self.mid_cpu, self.mid_memory, self.cpu, self.memory)

    @property
    def informed_at(self) -> int:
        """Returns the time up to which usage is completely known."""
        return self.whole_end or self.window_end


@record(frozen=True, slots=True)
class MeasuredUsage:
    """One window of a node. `node_usage` and `system` are None if not measured; `is_whole`: enough of the window was
    received for usage to count as fresh.
    """

    pods: tuple[PodInput, ...]
    node_usage: Resources | None
    system: Resources | None
    end: int
    is_whole: bool = True
    host_apps: tuple[HostApp, ...] = ()


@record(frozen=True, slots=True)
class PoolTotals:
    """One pool: the combined capacity and offers of its nodes, and the number of nodes whose offers exceed their
    capacity (always 0 without defects).
    """

    pool: str
    capacity: Resources
    batch: Resources
    mid: Resources
    nodes: int
    overoffered: int


def is_older(source: InputSource, known: InputSource | None) -> bool:
    """Returns whether a new part describes an earlier time than the known one, and must be ignored."""
    return known is not None and source.at < known.at


def with_description(
    state: NodeState,
    capacity: Resources,
    reserved: Resources,
    source: InputSource,
    pool: str = "default",
    numa: tuple[Zone, ...] = (),
    words: NodeOverrides | None = None,
    notes: NodeNotes | None = None,
) -> NodeState:
    if is_older(source, state.described_by):
        return state
    now = (words or NodeOverrides()).kept()
    return replace(
        state,
        capacity=capacity,
        reserved=reserved,
        described_by=source,
        pool=pool,
        numa=numa,
        notes=notes or NodeNotes(),
        words=now,
        good_words=last_good_overrides(now, state.words, state.good_words),
    )


def with_liveness(state: NodeState, lost: bool, source: InputSource) -> NodeState:
    if is_older(source, state.liveness_by):
        return state
    return replace(state, lost=lost, liveness_by=source)


def with_usage(state: NodeState, measured: MeasuredUsage, source: InputSource) -> NodeState:
    """Applies a window. Without a system measurement the last known value stays. An incomplete window is applied, but
    does not make usage fresher.
    """
    if measured.end < state.window_end:
        return state
    has_system = measured.system is not None
    whole = measured.is_whole and (has_system or state.system is None)
    return replace(
        state,
        pods=measured.pods,
        node_usage=measured.node_usage,
        system=measured.system if has_system else state.system,
        system_is_current=has_system,
        system_by=source if has_system else state.system_by,
        host_apps=measured.host_apps,
        window_end=measured.end,
        whole_end=measured.end if whole else state.informed_at or measured.end,
        used_by=source,
    )


def with_peaks(
    state: NodeState, peaks: Mapping[str, KnownPeak], source: InputSource, prod_peak: Resources | None = None
) -> NodeState:
    if is_older(source, state.predicted_by):
        return state
    return replace(state, peaks=peaks, predicted_by=source, prod_peak=prod_peak)


def with_kept_room(state: NodeState, kept: tuple[KeptRoom, ...], generation: int, source: InputSource) -> NodeState:
    """Applies what reservations keep. The publisher's generation rises with every change; it begins anew, at a later
    time, where the publisher was installed anew. A node that is not known keeps nothing."""
    is_old = generation < state.kept_generation and is_older(source, state.kept_by)
    if is_old or (not kept and state.described_by is None and not state.kept):
        return state
    return replace(state, kept=kept, kept_by=source, kept_generation=generation)


def with_offer(state: NodeState, offer: NodeOffer, degraded: str | None, due_at: int) -> NodeState:
    """Returns the state with the decided offer in force."""
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
        batch_taken=offer.batch.taken,
        mid_taken=offer.mid.taken,
    )
