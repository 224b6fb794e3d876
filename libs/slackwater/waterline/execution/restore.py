"""Restores quotas: the last throttled pod first, stepwise within the headroom, to the exact
original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from slackwater.waterline.actuation.cpu_quota import amount_of, restore_cpu
from slackwater.waterline.analysis.demands import ActionKind, Restorable
from slackwater.waterline.execution.plan import Spared, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.ordering.chains import CPU, ComparatorChain


def restore_quotas(
    restorable: Sequence[Restorable], refused: Mapping[str, str], chain: ComparatorChain = CPU
) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
    """Returns the raises of one cycle. CPU given to one pod is not available to the others."""
    by_uid = {one.pod.uid: one for one in restorable}
    given, steps, spared = ZERO, [], []
    for pod in reversed(chain.order(one.pod for one in restorable)):
        one = by_uid[pod.uid]
        left = None if one.headroom is None else max(ZERO, one.headroom - given)
        if pod.uid in refused or (left is not None and left <= 0):
            because = refused.get(pod.uid, "no headroom is left")
            spared.append(Spared(ActionKind.RESTORE, pod.uid, pod.name, because))
            continue
        changes = (one.restore or restore_cpu)(pod, one.bounds, left)
        if not changes:
            spared.append(
                Spared(ActionKind.RESTORE, pod.uid, pod.name, "the headroom is too small for its quota to rise")
            )
            continue
        cost = amount_of(changes)
        given += cost
        steps.append(
            Step(ActionKind.RESTORE, pod.uid, pod.name, "", chain.keys(pod), (("cpu", Decimal(cost)),), changes)
        )
    return tuple(steps), tuple(spared)
