"""One cycle in one call, and crowds that are small enough for brute force."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from waterline_crowd import use, view
from waterline_rules import EXACT, at

from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Cycle, CycleState, run_cycle
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.values import Policies

D = Decimal
CPU, MEMORY = "node_cpu_usage", "node_memory_usage"
batch_crowds = st.lists(
    st.builds(
        lambda uid, cpu, memory, priority: use(uid, cpu=cpu, memory=memory, priority=priority),
        st.uuids().map(str),
        st.integers(0, 900),
        st.integers(0, 900),
        st.integers(5000, 5003),
    ),
    max_size=7,
    unique_by=lambda pod: pod.uid,
)


def cycle(rules: Policies, *pods: PodUse, state: CycleState | None = None, **fields: Any) -> Cycle:
    readings = {name: fields.pop(name) for name in (CPU, MEMORY) if name in fields}
    when = fields.pop("when", 0)
    given_options = fields.pop("options", EXACT)
    node = view(*pods, at=when, **readings)
    return run_cycle(node, rules, state or CycleState(), at(when), options=given_options, **fields)


def evicted(done: Cycle) -> list[str]:
    return [step.uid for step in done.plan.of(ActionKind.EVICT)]


def closes(pods: Iterable[PodUse], cpu: int, memory: int) -> bool:
    chosen = list(pods)
    return (
        sum(pod.cpu_usage_milli or 0 for pod in chosen) >= cpu
        and sum(pod.memory_usage_bytes or 0 for pod in chosen) >= memory
    )
