"""Reaction time on this machine's cgroups: from a surge to a lowered quota, and to usage below the waterline.

A surge continues prod processes stopped by SIGSTOP, so its start is known to the millisecond; quotas and CPU are read
from the kernel, independently of the product. The waterline is 86 % of the machine's CPU, the target 76 %; prod uses
62 % in a surge, the demand of eight batch pods is 42 %. A surge begins when every quota has its original value, each
time at another offset between two samples of the agent. Without writable cgroups the times between the records of
simulated machines are used, and the result says so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from tests.bench import stack
from tests.bench.policies import documents
from tests.bench.policies.comparison import MachineUse, SurgeFigures, SurgeSeen, figures
from tests.bench.policies.contest import BATCH_PODS, BATCH_SHARE
from tests.bench.policies.watch import QuotaWatch, UseWatch, lowered_of
from tests.bench.verdict import Scale, Target

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.charts.latency_chart import percentile
from slackwater.demo.machine.kernel import Kernel
from slackwater.runtime.state import Endpoint

TARGET_SECONDS = 2.0
PROD_SHARE = 0.62
_SURGE_SECONDS = 4.0
_START_PATIENCE_SECONDS, _FREE_PATIENCE_SECONDS = 60.0, 120.0
_CALM_SECONDS = documents.COOL_DOWN_SECONDS + 0.2
"""Minimum pause between surges: an earlier surge counts as a relapse of the last restore, which then waits longer."""
_GOLDEN = 0.618
"""Fractional parts of its multiples are evenly distributed for any count."""
_BURN = "while True: pass"


@dataclass(frozen=True, slots=True)
class SurgeReaction:
    """One surge: seconds to the first lowered quota (None: never), and its other figures."""

    seconds_to_quota: float | None
    figures: SurgeFigures


def measure(state_dir: Path, surges: int) -> dict[str, Any]:
    """p50, p99 and maximum in seconds over all surges. A surge without a reaction is reported and misses the target."""
    if find_hierarchy().why_unwritable() is not None:
        fleet, tides = ("--driver", "simulated", "--nodes", str(surges)), {"SLACKWATER_AGENT_LOAD": "tide"}
        with stack.running(state_dir, *fleet, settings=tides) as (_, endpoint):
            time.sleep(45)  # two tides
            return {"driver": "simulated", **from_records(endpoint)}
    with stack.running(state_dir) as (_, endpoint), workloads(state_dir):
        put(endpoint, documents.document(get(endpoint, "/v1/nodeqos/default"), documents.PRECISE, documents.FULL))
        found = surge_repeatedly(Kernel.of(state_dir), surges)
        return {"driver": "linux", **judged(found), **from_records(endpoint)}


def judged(found: Sequence[SurgeReaction]) -> dict[str, Any]:
    """The figure over all surges."""
    lowered = [one.seconds_to_quota for one in found if one.seconds_to_quota is not None]
    crossed = [one.figures for one in found if one.figures.crossed]
    below = [one.seconds_to_below for one in crossed if one.seconds_to_below is not None]
    told = spread(below)
    unanswered = len(found) - len(lowered) + len(crossed) - len(below)
    return {
        "surges": len(found),
        "surges_above": len(crossed),
        "unanswered": unanswered,
        "surge_to_quota": spread(lowered),
        "surge_to_below": told,
        "targets": (
            Target("surge to below the waterline p99", told["p99"], TARGET_SECONDS, "s", Scale.TIME),
            Target("surges without an answer", unanswered, 0),
        ),
    }


@contextmanager
def workloads(state_dir: Path) -> Iterator[None]:
    """Prod and batch, each with a CPU limit, so that the demand is known."""
    pods = [start(state_dir, "prod", "bench-prod", prod_limit_milli())]
    pods += [start(state_dir, "batch", f"bench-batch-{number}", batch_limit_milli()) for number in range(BATCH_PODS)]
    try:
        yield
    finally:
        for pod in pods:
            pod.send_signal(signal.SIGTERM)
        for pod in pods:
            pod.wait(20)


def start(state_dir: Path, tier: str, name: str, limit_milli: int) -> subprocess.Popen[bytes]:
    """Starts CPU-bound processes as a managed workload, enough to use the limit."""
    burners = (
        "import subprocess, sys\n"
        f"started = [subprocess.Popen([sys.executable, '-c', {_BURN!r}]) for _ in range({-(-limit_milli // 1000)})]\n"
        "started[0].wait()"
    )
    limit = f"{limit_milli}m"
    flags = ("--tier", tier, "--workload", name, "--name", name, "--cpu", limit, "--cpu-limit", limit)
    command = [sys.executable, "-m", "slackwater.cli", "exec", *flags, "--memory", "256Mi"]
    return subprocess.Popen([*command, "--state-dir", str(state_dir), "--", sys.executable, "-c", burners])


def surge_repeatedly(kernel: Kernel, surges: int) -> list[SurgeReaction]:
    """Runs surges, each from a calm machine with batch restored. Raises TimeoutError if batch is not restored."""
    found = []
    try:
        until_pods(kernel)
        with QuotaWatch(kernel) as watch, UseWatch(kernel) as use:
            for number in range(surges):
                until_free(watch)
                time.sleep(_CALM_SECONDS + _GOLDEN * number % 1)
                sys.stderr.write(f"  surge {number + 1} of {surges}\n")
                found.append(surge(kernel, watch, use))
            until_free(watch)
    finally:
        signal_prod(kernel, signal.SIGCONT)
    return found


def surge(kernel: Kernel, watch: QuotaWatch, use: UseWatch) -> SurgeReaction:
    """Continue prod, wait, stop it, and evaluate the readings."""
    before = len(watch.changes)
    began = time.monotonic()
    signal_prod(kernel, signal.SIGCONT)
    time.sleep(_SURGE_SECONDS)
    ended = time.monotonic()
    signal_prod(kernel, signal.SIGSTOP)
    time.sleep(0.2)  # the last readings of the surge
    lowered = lowered_of(watch.changes[before:], watch.originals)
    cpus = float(os.cpu_count() or 1)
    machine = MachineUse(cpus, documents.FULL.waterline, documents.FULL.target, BATCH_SHARE * cpus)
    seen = SurgeSeen(documents.PRECISE, began, ended, ended, use.between(began, ended), lowered, ())
    first = min((one.at for one in lowered), default=None)
    return SurgeReaction(None if first is None else first - began, figures(seen, machine))


def until_pods(kernel: Kernel) -> None:
    """Wait until prod is stopped and every batch pod runs with its own limit, without throttles.

    Raises TimeoutError.
    """
    deadline = time.monotonic() + _START_PATIENCE_SECONDS
    given = [batch_limit_milli()] * BATCH_PODS
    burners = -(-prod_limit_milli() // 1000) + 1
    while len(prod_processes(kernel)) < burners or len(kernel.batch_limits()) < BATCH_PODS:
        _not_after(deadline)
        time.sleep(0.1)
    time.sleep(1)  # all processes have started
    signal_prod(kernel, signal.SIGSTOP)
    time.sleep(2.5)  # two samples of the agent without prod
    while list(kernel.batch_limits().values()) != given:
        _not_after(deadline)
        time.sleep(0.1)


def _not_after(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"not all pods run, or batch is throttled without a surge, {_START_PATIENCE_SECONDS:g} s on")


def prod_limit_milli() -> int:
    return round(1000 * PROD_SHARE * (os.cpu_count() or 1))


def batch_limit_milli() -> int:
    """Of one pod."""
    return round(1000 * BATCH_SHARE * (os.cpu_count() or 1) / BATCH_PODS)


def until_free(watch: QuotaWatch) -> None:
    """Wait until every quota has its original value. Raises TimeoutError."""
    deadline = time.monotonic() + _FREE_PATIENCE_SECONDS
    while not watch.all_original():
        if time.monotonic() > deadline:
            raise TimeoutError(f"batch was not fully restored after {_FREE_PATIENCE_SECONDS:g} s")
        time.sleep(0.05)


def prod_processes(kernel: Kernel) -> list[int]:
    folder = kernel.hierarchy.directories(kernel.root)[0] / "prod"
    return [int(pid) for procs in folder.glob("*/cgroup.procs") for pid in procs.read_text().split()]


def signal_prod(kernel: Kernel, number: int) -> None:
    for pid in prod_processes(kernel):
        os.kill(pid, number)


def from_records(endpoint: Endpoint) -> dict[str, Any]:
    """Times from the report (its sample) and from the decision to the write, from the chains of the decisions."""
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
    return {"count": len(seconds), **{name: round(value or 0.0, 4) for name, value in values.items()}}


def put(endpoint: Endpoint, document: Mapping[str, Any]) -> None:
    """Replace the cluster's NodeQOS unconditionally."""
    url = f"{endpoint.http_url}/v1/nodeqos/default"
    httpx2.put(url, json=document, headers={"if-match": "*"}, timeout=10).raise_for_status()


def get(endpoint: Endpoint, path: str) -> Any:
    answer = httpx2.get(f"{endpoint.http_url}{path}", timeout=10)
    answer.raise_for_status()
    return answer.json()
