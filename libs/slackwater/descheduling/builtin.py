"""The built-in plugins of a profile: the default filter, and LowNodeLoad with its detectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.evictability import EvictorSettings, protection
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPlan, balance
from slackwater.descheduling.placement import ClusterPlacement, EvictionGate, EvictionProposal, PlacedPod


class DefaultEvictor:
    """The Filter point: protections of pods."""

    def __init__(self, settings: EvictorSettings) -> None:
        self._settings = settings

    def filter(self, pod: PlacedPod, now_s: float) -> str | None:
        """Returns why the pod is never proposed; None where it may be."""
        return protection(pod, self._settings)


class LowNodeLoad:
    """The Balance point: `detectors` of the last round in, `plan` of this one out."""

    def __init__(self, args: LowNodeLoadArgs, detectors: Mapping[str, AnomalyState]) -> None:
        self._args = args
        self._detectors = detectors
        self.plan: LowNodeLoadPlan | None = None

    def balance(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns the proposals of a round."""
        self.plan = balance(cluster, self._args, self._detectors, now_s, gate)
        return self.plan.proposals
