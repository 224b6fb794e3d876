"""The built-in plugins of a profile: the default filter, and LowNodeLoad with its detectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.evictability import EvictorSettings, protection
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPlan, balance, pool_loads
from slackwater.descheduling.placement import (
    PODS,
    Amounts,
    ClusterPlacement,
    EvictionGate,
    EvictionProposal,
    PlacedPod,
)
from slackwater.descheduling.plugins import MoveJudge
from slackwater.model.tiers import Tier


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

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge:
        """slackwater.descheduling.plugins.UndoPoint."""
        return _LoadJudge(cluster, self._args)


class _LoadJudge:
    """No other plugin may bring load to where it would be above a high threshold."""

    def __init__(self, cluster: ClusterPlacement, args: LowNodeLoadArgs) -> None:
        self._source = args.load
        self._loads: dict[str, list[tuple[bool, dict[str, int], Amounts]]] = {}
        for load in pool_loads(cluster, args):
            for of_prod, usage, high in ((False, load.usage, load.high), (True, load.prod, load.prod_high)):
                self._loads.setdefault(load.node.name, []).append((of_prod, dict(usage), high))

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.plugins.MoveJudge."""
        amounts = self._amounts(pod)
        return any(
            amounts.get(name, 0) > 0 and usage.get(name, 0) + amounts[name] > limit
            for of_prod, usage, high in self._loads.get(target, ())
            if pod.tier is Tier.PROD or not of_prod
            for name, limit in high.items()
        )

    def moved(self, pod: PlacedPod, target: str) -> None:
        """slackwater.descheduling.plugins.MoveJudge."""
        for name, sign in ((pod.node, -1), (target, 1)):
            for of_prod, usage, _ in self._loads.get(name, ()):
                if pod.tier is Tier.PROD or not of_prod:
                    for resource, amount in self._amounts(pod).items():
                        usage[resource] = usage.get(resource, 0) + sign * amount

    def _amounts(self, pod: PlacedPod) -> dict[str, int]:
        return {**(pod.load(self._source) or {}), PODS: 1}
