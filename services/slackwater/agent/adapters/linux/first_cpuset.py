"""The cpuset of a new pod, written by `slackwater exec` before its command starts, as the agent answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.lock import agent_runs
from slackwater.agent.adapters.placement_files import read_placements
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.pods import LABEL_CPU_POOL, LABEL_NUMA_BOUND, RESOURCE_LABEL, Pod
from slackwater.model.tiers import QoSClass

_ANSWER_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class FirstPlacement:
    """What a command starts with. `without`: why it starts without what it asks for; empty where it has it."""

    without: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)


def assign_cpuset(layout: Layout, pod: Pod) -> FirstPlacement:
    """Write the cpuset of a new pod, before its command starts. Returns what else it starts with. Raises Conflict where
    the agent refuses, Unavailable where it does not answer.
    """
    is_dedicated = pod.qos in (QoSClass.LSE, QoSClass.LSR)
    is_awaited = is_dedicated or any(
        label.startswith(RESOURCE_LABEL) or label in (LABEL_CPU_POOL, LABEL_NUMA_BOUND) for label in pod.labels
    )
    if not agent_runs(layout.agent_dir):
        why = "no agent runs here that would place it; it gets them when one does"
        return FirstPlacement(why if is_awaited else "")
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        answer = read_placements(layout.agent_dir) or {}
        if answer.get("off"):
            return FirstPlacement(str(answer["off"]) if is_awaited else "")
        if pod.uid in answer.get("refused", {}):
            raise Conflict(str(answer["refused"][pod.uid]), code="cpus_exhausted", field="cpus")
        placed = answer.get("pods", {}).get(pod.uid)
        if placed is None and not is_awaited:
            cpus = answer.get("others", {}).get(pod.qos.value, "")
            placed = {"cpus": cpus, "mems": ""}
        if placed is not None:
            _write(layout, pod, placed["cpus"], placed["mems"])
            return FirstPlacement(envs=placed.get("envs") or {})
        if time.monotonic() > deadline:
            raise Unavailable(f"the agent did not place it within {_ANSWER_SECONDS:g} s", code="not_placed")
        time.sleep(0.02)


def _write(layout: Layout, pod: Pod, cpus: str, mems: str) -> None:
    directory = layout.directory("cpuset", layout.pod(pod.tier, pod.uid))
    for name, text in (("cpuset.cpus", cpus), ("cpuset.mems", mems)):
        if text:
            (directory / name).write_text(text)
