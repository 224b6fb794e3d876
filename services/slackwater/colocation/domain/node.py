"""What colocation knows of one node between two events, with the source of each part, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from slackwater.colocation.domain.gating import Gate
from slackwater.colocation.domain.snapshot import NodeSnapshot, PodUse
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.quantities import Resources


@dataclass(frozen=True, slots=True)
class Source:
    """The event a part comes from, and the time the part speaks of."""

    event_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class KnownPeak:
    """The predicted peak of a pod; `cold` if its request stands in."""

    peak: Resources
    cold: bool


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. A part whose source is None has never been told. `window_end` in seconds since 1970."""

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
    due_at: int = 0
    """From when on the offer changes although nothing is news, seconds since 1970: see `due_at_of`."""

    @property
    def offers_something(self) -> bool:
        return bool(self.cpu.published or self.memory.published)


def is_older(source: Source, known: Source | None) -> bool:
    """Whether what just arrived speaks of an earlier time than what is known: then it is not news."""
    return known is not None and source.at < known.at


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """One pool: what its nodes have and offer together, and how many offer more than they have (never any)."""

    pool: str
    capacity: Resources
    batch: Resources
    nodes: int
    overoffered: int


def with_description(
    state: NodeState, capacity: Resources, reserved: Resources, source: Source, pool: str = "default"
) -> NodeState:
    if is_older(source, state.described_by):
        return state
    return replace(state, capacity=capacity, reserved=reserved, described_by=source, pool=pool)


def with_liveness(state: NodeState, lost: bool, source: Source) -> NodeState:
    if is_older(source, state.liveness_by):
        return state
    return replace(state, lost=lost, liveness_by=source)


def with_usage(
    state: NodeState, pods: tuple[PodUse, ...], system: Resources | None, window_end: int, source: Source
) -> NodeState:
    """The system's last known value stays when this window has none."""
    if window_end < state.window_end:
        return state
    return replace(
        state,
        pods=pods,
        system=state.system if system is None else system,
        system_is_current=system is not None,
        window_end=window_end,
        used_by=source,
    )


def with_peaks(state: NodeState, peaks: Mapping[str, KnownPeak], source: Source) -> NodeState:
    if is_older(source, state.predicted_by):
        return state
    return replace(state, peaks=peaks, predicted_by=source)


def snapshot_of(state: NodeState, strategy: Strategy, now: datetime) -> NodeSnapshot | None:
    """What an offer is made of now; None until the node was described and measured."""
    if state.described_by is None or state.used_by is None:
        return None
    peaks = state.peaks if _is_usable(state, strategy, now) else {}
    return NodeSnapshot(
        capacity=state.capacity,
        reserved=state.reserved,
        pods=tuple(_predicted(pod, peaks.get(pod.uid)) for pod in state.pods),
        system=state.system,
        system_is_current=state.system_is_current,
        age_seconds=max(0.0, now.timestamp() - state.window_end),
        lost=state.lost,
    )


def due_at_of(state: NodeState, strategy: Strategy, now: datetime) -> int:
    """When time alone changes the offer: as the prediction becomes too old to be one, and once the usage is so old that
    the offer shrinks. In whole seconds, cut: asked a little early, the answer is that nothing changed yet."""
    shrinks = state.window_end + strategy.decay_from_seconds
    if state.predicted_by is None or not _is_usable(state, strategy, now):
        return int(shrinks)
    return int(min(shrinks, state.predicted_by.at.timestamp() + strategy.prediction_max_age_seconds))


def _is_usable(state: NodeState, strategy: Strategy, now: datetime) -> bool:
    by = state.predicted_by
    return by is not None and (now - by.at).total_seconds() <= strategy.prediction_max_age_seconds


def _predicted(pod: PodUse, known: KnownPeak | None) -> PodUse:
    return pod if known is None else replace(pod, predicted=known.peak, cold=known.cold)
