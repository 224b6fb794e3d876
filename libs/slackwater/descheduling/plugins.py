"""The extension points of descheduling. Distributions add plugins by the entry point `slackwater.deschedule`.

The points are those of the Kubernetes descheduler, with Sort, which orders the proposals of all plugins, and Evict,
which chooses which accepted proposals are submitted. A plugin implements the points that it needs. All are pure: they
are called with a snapshot and a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from slackwater.descheduling.placement import ClusterPlacement, EvictionGate, EvictionProposal, PlacedPod

ENTRY_POINT = "slackwater.deschedule"


@runtime_checkable
class DeschedulePoint(Protocol):
    """Finds pods that should not be where they are, each for itself."""

    def deschedule(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]: ...


@runtime_checkable
class BalancePoint(Protocol):
    """Finds pods by comparing nodes. It asks the gate before each proposal, and records each."""

    def balance(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]: ...


@runtime_checkable
class FilterPoint(Protocol):
    """Whether a pod may be proposed at all: cheap, asked for each pod."""

    def filter(self, pod: PlacedPod, now_s: float) -> str | None:
        """Returns why the pod is not proposed; None where it may be."""


@runtime_checkable
class PreEvictionFilterPoint(Protocol):
    """Whether a proposal is still right: asked once for each, before it is accepted."""

    def pre_eviction_filter(self, proposal: EvictionProposal, cluster: ClusterPlacement, now_s: float) -> str | None:
        """Returns why the proposal is dropped; None where it is accepted."""


@runtime_checkable
class SortPoint(Protocol):
    """Orders the proposals of a cycle; stable."""

    def sort(self, proposals: Sequence[EvictionProposal]) -> Sequence[EvictionProposal]: ...


@runtime_checkable
class EvictPoint(Protocol):
    """Has the last word on a cycle: it sees all accepted proposals at once, in their order."""

    def evict(self, proposals: Sequence[EvictionProposal], now_s: float) -> Collection[str]:
        """Returns the UIDs of the pods whose proposals are submitted; the others wait for another cycle."""


class MoveJudge(Protocol):
    """Follows a cluster through the moves of a cycle, for one plugin."""

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """Whether the plugin would propose more moves after this one than before it."""

    def moved(self, pod: PlacedPod, target: str) -> None:
        """Note a move."""


@runtime_checkable
class UndoPoint(Protocol):
    """Keeps the moves of the other plugins of a profile from making what this one undoes.

    What a plugin lowers with each of its moves (pods that are too many, load above a threshold) no other plugin may
    raise: only so a profile comes to rest under constant load.
    """

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge: ...


Plugin = object
"""Whatever implements one of the points."""
