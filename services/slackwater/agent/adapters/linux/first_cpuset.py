"""The cpuset of a new pod, written by `slackwater exec` before its command starts, as the agent answers."""

from __future__ import annotations

import time

from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.lock import agent_runs
from slackwater.agent.adapters.placement_files import read_placements
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.pods import Pod
from slackwater.model.tiers import QoSClass

_ANSWER_SECONDS = 15.0


def assign_cpuset(layout: Layout, pod: Pod) -> str:
    """Write the cpuset of a new pod, before its command starts. Returns why it starts without CPUs of its own; empty
    where it has what it asks for. Raises Conflict where the agent refuses, Unavailable where it does not answer.
    """
    is_dedicated = pod.qos in (QoSClass.LSE, QoSClass.LSR)
    if not agent_runs(layout.agent_dir):
        return "no agent runs here that would place it; it gets them when one does" if is_dedicated else ""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        answer = read_placements(layout.agent_dir) or {}
        if answer.get("off"):
            return str(answer["off"]) if is_dedicated else ""
        if pod.uid in answer.get("refused", {}):
            raise Conflict(str(answer["refused"][pod.uid]), code="cpus_exhausted", field="cpus")
        placed = answer.get("pods", {}).get(pod.uid)
        if placed is None and not is_dedicated:
            cpus = answer.get("others", {}).get(pod.qos.value, "")
            placed = {"cpus": cpus, "mems": ""}
        if placed is not None:
            _write(layout, pod, placed["cpus"], placed["mems"])
            return ""
        if time.monotonic() > deadline:
            raise Unavailable(f"the agent did not place it within {_ANSWER_SECONDS:g} s", code="not_placed")
        time.sleep(0.02)


def _write(layout: Layout, pod: Pod, cpus: str, mems: str) -> None:
    directory = layout.directory("cpuset", layout.pod(pod.tier, pod.uid))
    for name, text in (("cpuset.cpus", cpus), ("cpuset.mems", mems)):
        if text:
            (directory / name).write_text(text)
