"""How long from a crossed waterline to a lowered quota, over many surges, on this machine's cgroups.

A surge is made by waking prod processes (two per CPU) that sleep in SIGSTOP, so its start is known to the
millisecond; the quota is polled in the kernel, so nobody's own word is taken. Where cgroups cannot be written the
times between the records of simulated machines are taken, and the result says so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from tests.bench import stack

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.demo.kernel import Kernel, QuotaWatch
from slackwater.demo.load import percentile
from slackwater.runtime.state import Endpoint

_SURGE_SECONDS = 3.0
_RESTORE_PATIENCE_SECONDS = 25.0
_BURN = "while True: pass"


def measure(state_dir: Path, surges: int) -> dict[str, Any]:
    """p50, p99 and maximum in seconds, and how many surges they stand on."""
    if find_hierarchy().why_unwritable() is not None:
        with stack.running(state_dir, "--driver", "simulated", "--nodes", str(surges)) as (_, endpoint):
            time.sleep(45)  # two tides
            return {"driver": "simulated", **from_records(endpoint)}
    with stack.running(state_dir) as (_, endpoint):
        pods = [start(state_dir, tier, 2 * (os.cpu_count() or 1)) for tier in ("prod", "batch")]
        try:
            lowered = surge_repeatedly(Kernel.of(state_dir), surges)
            return {"driver": "linux", "surge_to_quota": spread(lowered), **from_records(endpoint)}
        finally:
            for pod in pods:
                pod.send_signal(signal.SIGTERM)
            for pod in pods:
                pod.wait(20)


def start(state_dir: Path, tier: str, processes: int) -> subprocess.Popen[bytes]:
    """Burners as a managed workload."""
    burners = (
        "import subprocess, sys\n"
        f"started = [subprocess.Popen([sys.executable, '-c', {_BURN!r}]) for _ in range({processes})]\n"
        "started[0].wait()"
    )
    flags = ("--tier", tier, "--workload", f"bench-{tier}", "--cpu", "1", "--memory", "512Mi")
    command = [sys.executable, "-m", "slackwater.cli", "exec", *flags, "--state-dir", str(state_dir), "--"]
    return subprocess.Popen([*command, sys.executable, "-c", burners])


def surge_repeatedly(kernel: Kernel, surges: int) -> list[float]:
    """Seconds from each wake-up of prod to the first lowered batch quota."""
    until_pods(kernel)
    found = []
    signal_prod(kernel, signal.SIGSTOP)
    until_quiet(kernel)
    for number in range(surges):
        sys.stderr.write(f"  surge {number + 1} of {surges}\n")
        with QuotaWatch(kernel) as watch:
            began = time.monotonic()
            signal_prod(kernel, signal.SIGCONT)
            time.sleep(_SURGE_SECONDS)
            signal_prod(kernel, signal.SIGSTOP)
            found.extend(change.at - began for change in watch.changes[:1])
            until_quiet(kernel)
    signal_prod(kernel, signal.SIGCONT)
    return found


def until_pods(kernel: Kernel) -> None:
    deadline = time.monotonic() + 20
    while not (kernel.batch_limits() and prod_processes(kernel)) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)


def until_quiet(kernel: Kernel) -> None:
    """Every batch quota is unlimited again, for a full sampling interval."""
    deadline = time.monotonic() + _RESTORE_PATIENCE_SECONDS
    while any(kernel.batch_limits().values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.3)


def prod_processes(kernel: Kernel) -> list[int]:
    folder = kernel.hierarchy.directories(kernel.root)[0] / "prod"
    return [int(pid) for procs in folder.glob("*/cgroup.procs") for pid in procs.read_text().split()]


def signal_prod(kernel: Kernel, number: int) -> None:
    for pid in prod_processes(kernel):
        os.kill(pid, number)


def from_records(endpoint: Endpoint) -> dict[str, Any]:
    """From the report (its sample) and from the decision to the write, as the decisions' own chains tell."""
    decisions = get(endpoint, "/v1/decisions?kind=throttle&limit=200")["items"]
    from_report, from_decision = [], []
    for item in decisions:
        steps = get(endpoint, f"/v1/decisions/{item['id']}/chain")["steps"]
        times = {step["kind"]: datetime.fromisoformat(step["at"]) for step in reversed(steps) if step["at"]}
        report, written = times.get("usage.reported"), times.get("intent.observed")
        if report is not None and written is not None:
            from_report.append((written - report).total_seconds())
        if item["seconds_to_actuation"] is not None:
            from_decision.append(item["seconds_to_actuation"])
    return {
        "throttle_decisions": len(decisions),
        "report_to_quota": spread(from_report),
        "decision_to_quota": spread(from_decision),
    }


def spread(seconds: Sequence[float]) -> Mapping[str, float | int | None]:
    if not seconds:
        return {"count": 0, "p50": None, "p99": None, "max": None}
    values = {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "max": max(seconds)}
    return {"count": len(seconds), **{name: round(value, 4) for name, value in values.items()}}


def get(endpoint: Endpoint, path: str) -> Any:
    answer = httpx2.get(f"{endpoint.http_url}{path}", timeout=10)
    answer.raise_for_status()
    return answer.json()
