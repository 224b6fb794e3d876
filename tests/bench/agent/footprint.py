"""Cost of the agent: RSS and CPU of `slackwater agent` as its own process, with 110 cgroups at 1 s.

    python -m tests.bench.agent.footprint [--pods 110] [--seconds 20]

Uses real cgroups with one idle `sleep` each and a real nats-server. The first phase is calm; in the second a throttle
is in force, so every sample is reported. Also measures the time from a published to an observed intent. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.machine import online_cpus
from slackwater.agent.adapters.linux.processes import kill_all, process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.domain.admission import Command, admit
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import new_id
from slackwater.model.pods import Pod
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.state import StateDir

_NODE = "bench"
_INTENTS = 50


def start_pods(layout: Layout, count: int) -> tuple[list[Pod], list[subprocess.Popen[bytes]]]:
    """Start idle pods of all tiers, supervised by this process."""
    registry, me = PodRegistry(layout.agent_dir / "pods"), process_of(os.getpid())
    pods, sleepers = [], []
    for number in range(count):
        tier = ("prod", "mid", "batch", "free")[number % 4]
        command = Command(tier=tier, cpu="100m", memory="64Mi", workload=f"idle-{tier}", arguments=("sleep",))
        pod = replace(admit(command, new_id(), datetime.now(UTC)))
        registry.add(Entry(pod, me, layout.instance))
        sleeper = subprocess.Popen(["sleep", "600"])
        for directory in layout.make_pod(pod.tier, pod.uid):
            (directory / "cgroup.procs").write_text(str(sleeper.pid))
        pods.append(pod)
        sleepers.append(sleeper)
    return pods, sleepers


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def measure(pid: int, seconds: float) -> dict[str, float]:
    before = cpu_seconds(pid)
    peak = 0.0
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        peak = max(peak, rss_mb(pid))
    return {"rss_mb": round(peak, 1), "cpu_percent_of_core": round(100 * (cpu_seconds(pid) - before) / seconds, 2)}


async def intent_to_observed(bus: NatsBus, pods: list[Pod]) -> list[float]:
    """Milliseconds from the publication of an intent to the arrival of intent.observed."""
    seen: asyncio.Queue[int] = asyncio.Queue()

    async def observed(event: Any) -> None:
        seen.put_nowait(event.data.generation)

    found: list[float] = []
    async with bus.watch(IntentObserved, observed, key=_NODE):
        for generation in range(1, _INTENTS + 1):
            throttle = CpuThrottle(pod_uid=pods[2].uid, cpu_limit_milli=100 + generation, decision_id=new_id())
            intent = IntentDeclared(
                node=_NODE, writer="bench", generation=generation, declared_at=datetime.now(UTC),
                lease_seconds=300, throttles=(throttle,),
            )  # fmt: skip
            begun = asyncio.get_running_loop().time()
            await bus.publish(event_of(intent, source="bench", time=datetime.now(UTC)))
            while await asyncio.wait_for(seen.get(), 10) != generation:
                pass
            found.append((asyncio.get_running_loop().time() - begun) * 1000)
            await asyncio.sleep(0.02)
    return sorted(found)


@asynccontextmanager
async def agent(state_dir: Path, url: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    line = [sys.executable, "-m", "slackwater.cli", "agent", "--nats", url, "--node", _NODE]
    process = subprocess.Popen([*line, "--state-dir", str(state_dir)])  # noqa: ASYNC220 - a bench; forking is quick
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


async def bench(state_dir: Path, count: int, seconds: float) -> dict[str, Any]:
    hierarchy = find_hierarchy()
    hierarchy.require_writable()
    layout = Layout(hierarchy, StateDir(state_dir).instance_id(), state_dir / "agent", len(online_cpus()))
    nats = EmbeddedNats(state_dir / "nats")
    sleepers: list[subprocess.Popen[bytes]] = []
    reports: list[UsageReported] = []
    try:
        url = await nats.start()
        pods, sleepers = start_pods(layout, count)
        async with connect_bus(url, name="bench") as bus, agent(state_dir, url) as process:

            async def reported(event: Any) -> None:
                reports.append(event.data)

            async with bus.watch(UsageReported, reported):
                while not reports:
                    await asyncio.sleep(0.1)
                    assert process.poll() is None, "the agent ended"
                calm = await measure(process.pid, seconds)
                latency = await intent_to_observed(bus, pods)
                throttled = await measure(process.pid, seconds)
                descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        return {
            "pods": len(reports[-1].pods),
            "reports": len(reports),
            "calm": calm,
            "throttle_in_force": throttled,
            "intent_to_observed_ms": {
                "p50": round(statistics.median(latency), 2),
                "p99": round(latency[-1], 2),
                "count": len(latency),
            },
            "open_descriptors": descriptors,
            "agent_exit_status": process.returncode,
            "restored_exactly": json.loads((state_dir / "agent/restore-report.json").read_text())["exact"],
        }
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        await nats.stop()
        for cgroup in [layout.pod(pod.tier, pod.uid) for pod in pods]:
            kill_all(hierarchy.directories(cgroup))
            hierarchy.remove(cgroup)
        assert layout.remove_unused(), "cgroups were left behind"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(bench(Path(folder), options.pods, options.seconds))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
