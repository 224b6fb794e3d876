"""The parts of a decision record about memory limits: terms and actions, in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.decisions.record import Action, MemoryLimit, Term
from slackwater.waterline.actuation.memory_high import MemoryChange, held_bytes
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.plan import Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import milli_of_quota
from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.registry.metric import Metric


def memory_term(step: Step, change: MemoryChange, metric: Metric | None, pod: PodUse | None) -> Term:
    """Returns the term of a step: a throttle releases, a restore returns."""
    held = None if pod is None else held_bytes(pod)
    note = "" if held is None else f"holds {int(held)}, "
    note += f"limit {_or_none(change.before_bytes)} -> {_or_none(change.after_bytes)} bytes"
    if step.kind is ActionKind.RESTORE_MEMORY:
        return Term(name=step.name, value=-int(change.amount_bytes), note=note)
    value = change.amount_bytes if metric is None else dict(step.released).get(metric.name, ZERO)
    return Term(name=step.name, value=int(value), note=note)


def _or_none(limit: int | None) -> str:
    return "none" if limit is None else str(limit)


def kept_limits(before: GuardState, steps: Sequence[Step]) -> frozenset[str]:
    """Returns the pods that keep a memory limit of ours after these steps."""
    originals = {one.uid: one.original_high_bytes for one in before.memory}
    back = {
        step.uid
        for step in steps
        if step.memory is not None and step.memory.after_bytes == originals.get(step.uid, step.memory.after_bytes)
    }
    return frozenset(originals.keys() - back)


def memory_action(
    step: Step, change: MemoryChange, tier: str, namespace: str, keys: tuple[float, ...], pod: PodUse | None
) -> Action:
    quota = milli_of_quota(pod.containers[0].quota_us) if pod is not None and pod.containers else None
    sign = -1 if step.kind is ActionKind.RESTORE_MEMORY else 1
    return Action(
        pod_uid=step.uid,
        pod_name=step.name,
        tier=tier,
        cpu_limit_before_milli=quota,
        cpu_limit_after_milli=quota,
        released_milli=0,
        keys=keys,
        namespace=namespace,
        memory=MemoryLimit(
            before_bytes=change.before_bytes,
            after_bytes=change.after_bytes,
            released_bytes=sign * int(change.amount_bytes),
        ),
    )
