"""`make bench`: measures the figures of the product on this machine and writes .slackwater/bench.json.

    python -m tests.bench [--list] [--only NAME,NAME] [--surges 6] [--minutes 2] [--seconds 60] [--out FILE]

Figures depend on the machine: load, calibration right before and after, and steal are recorded with each. Figures with
targets are judged (tests.bench.verdict). Exit status: 0 all met, 1 one missed or failed, 3 one not measurable and none
missed. The last line states it as text, because make itself exits with 2 for 1 and 3.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench import (
    agent_access,
    closed_loop,
    cluster_view,
    colocation_recompute,
    decisions_soak,
    freshness,
    guarding,
    handover,
    idle,
    ingestion,
    intents,
    kubernetes,
    machine,
    migration,
    move_rounds,
    outbox,
    peers,
    prediction_models,
    prediction_state,
    quota,
    quota_grpc,
    reaction,
    refusals,
    soak,
    topology,
    waterline_plan,
    wire,
    world_seeds,
)
from tests.bench.figures import judged, markdown, table, verdicts
from tests.bench.policies import figure as policies
from tests.bench.verdict import EXIT_MET, EXIT_MISSED, EXIT_NOT_MEASURABLE, exit_status

ROOT = Path(__file__).resolve().parents[2]
Measure = Callable[[Path, argparse.Namespace, float], dict[str, Any]]
"""Takes a folder, the options, and the speed of the machine as a multiple of the reference."""
EXIT_INTERRUPTED = 130
SAID = {
    EXIT_MET: "every target was met",
    EXIT_MISSED: "a target was missed, or a measurement failed",
    EXIT_NOT_MEASURABLE: "not measurable on this host now",
}


def agent(_: Path, given: argparse.Namespace, __: float) -> dict[str, Any]:
    """The agent's bench, as a separate process."""
    sizes = ("--pods", str(given.pods), "--seconds", str(given.idle_seconds))
    command = [sys.executable, "-m", "tests.bench.agent.footprint", *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1:])
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


FIGURES: Mapping[str, tuple[str, Measure]] = {
    "stack_idle": (
        "CPU and memory of the idle stack",
        lambda path, given, speed: idle.measure(path, given.idle_seconds),
    ),
    "reaction": (
        "from a surge of prod to the lowered quota of batch",
        lambda path, given, speed: reaction.measure(path, given.surges),
    ),
    "policies": (
        "precise throttling beside all or nothing under the same surges (--pairs); a minute each",
        lambda path, given, speed: policies.measure(path, given.pairs),
    ),
    "agent": ("memory and CPU of an agent with its pods", agent),
    "topology": (
        "CPUs of a large node: admission, merge of hints, reconciliation",
        lambda path, given, speed: topology.measure(),
    ),
    "ingestion": (
        "reports per second of ingestion, and their cost",
        lambda path, given, speed: ingestion.measure(
            path, rate=given.rate or speed * ingestion.TARGET_RATE, seconds=given.seconds
        ),
    ),
    "fresh_1000": (
        "from a report to the new offer in the API, 1,000 nodes",
        lambda path, given, speed: freshness.measure(path, freshness.Load(1000), seconds=given.seconds),
    ),
    "fresh_2000": (
        "the same with 2,000 nodes",
        lambda path, given, speed: freshness.measure(path, freshness.Load(2000), seconds=given.seconds),
    ),
    "fresh_10000": (
        "the same with 10,000 nodes of 30 pods, each 10 s, a fifth of which changes (--nodes for a smaller fleet)",
        lambda path, given, speed: freshness.measure(
            path, replace(freshness.LARGE, nodes=given.nodes), seconds=given.seconds
        ),
    ),
    "fresh_10000_of_4": (
        "the same with 4 pods each, as the nodes of the simulated driver have",
        lambda path, given, speed: freshness.measure(path, freshness.SIMULATED, seconds=given.seconds),
    ),
    "outbox": (
        "durable facts a second, and from commit to stream",
        lambda path, given, speed: outbox.measure(path, rate=speed * outbox.TARGET_RATE),
    ),
    "handover": (
        "two replicas of each service: one is killed or stopped, the other takes over (--handovers)",
        lambda path, given, speed: handover.measure(path, given.handovers),
    ),
    "prediction_models": (
        "peak models at 1,000, 3,000 and 10,000 nodes of 30 pods: folding, predicting, bytes",
        lambda path, given, speed: prediction_models.measure(),
    ),
    "prediction": (
        "prediction's state at 1,000, 3,000 and 10,000 nodes of 30 pods: accepted, folded, predicted, saved, restored",
        lambda path, given, speed: prediction_state.measure(),
    ),
    "colocation_recompute": (
        "recompute of all offers at 1,000, 3,000 and 10,000 nodes of 30 pods, from arrays",
        lambda path, given, speed: colocation_recompute.measure(),
    ),
    "closed_loop": (
        "batch fills every offer on real traces: minutes beyond capacity; several minutes",
        lambda path, given, speed: closed_loop.measure(),
    ),
    "cluster_view": (
        "the cluster folded into arrays at 1,000, 3,000 and 10,000 nodes of 30 pods: report, view, bytes",
        lambda path, given, speed: cluster_view.measure(),
    ),
    "wire": (
        "telemetry with 30 and 110 pods: bytes of a message, microseconds of each reader, cores of services",
        lambda path, given, speed: wire.measure(),
    ),
    "quota": (
        "quotas in process: recompute of 100, 1,000 and 10,000 in three resources, beside the plain one; admissions",
        lambda path, given, speed: quota.measure(),
    ),
    "quota_grpc": (
        "durable admissions over gRPC, beside single-row commits of 16 connections on the same PostgreSQL",
        lambda path, given, speed: quota_grpc.measure(path),
    ),
    "migration": (
        "arbitration of 10,000 and 100,000 waiting jobs; LowNodeLoad at 100, 1,000 and 5,000 nodes of 30 pods",
        lambda path, given, speed: migration.measure(),
    ),
    "move_rounds": (
        "whole rounds of migration with 10,000 and 100,000 waiting jobs; cycles of the descheduler from folded events",
        lambda path, given, speed: move_rounds.measure(),
    ),
    "waterline_plan": (
        "a plan of the precise framework for a node with 110 pods",
        lambda path, given, speed: waterline_plan.measure(),
    ),
    "refusals": (
        "what hostile messages and bodies of 1 MB cost: CPU and memory of every reader, by kind of attack",
        lambda path, given, speed: refusals.measure(),
    ),
    "guarding": (
        "ensurance per report on one core: calm, held, crossing",
        lambda path, given, speed: guarding.measure(),
    ),
    "intents": (
        "from a report above its waterline to the declared intent, at 2,000 reports a second",
        lambda path, given, speed: intents.measure(path, seconds=given.seconds),
    ),
    "kubernetes": (
        "500 nodes and 5,000 pods by kwok: usage to node status, scheduling, evictions (--kube-nodes, --kube-pods)",
        lambda path, given, speed: kubernetes.measure(
            path, nodes=given.kube_nodes, pods=given.kube_pods, seconds=given.seconds
        ),
    ),
    "agent_access": (
        "agents that enrol and connect with signed credentials, a block, a restart of the broker (--agents)",
        lambda path, given, speed: agent_access.measure(path, agents=given.agents),
    ),
    "peers": (
        "ratios to the algorithms of peers on the same input",
        lambda path, given, speed: peers.measure(),
    ),
    "world": (
        "seeds of the simulated world: CPU of a full one and of a small one, time of a campaign",
        lambda path, given, speed: world_seeds.measure(path, speed),
    ),
    "decisions_soak": (
        "growth of the stream DECISIONS: 30 nodes at a low waterline (--minutes 17), and 1,000 nodes in 30 days",
        lambda path, given, speed: decisions_soak.measure(path, minutes=given.minutes),
    ),
    "soak": (
        "slope of memory and descriptors (--minutes)",
        lambda path, given, speed: soak.measure(path, minutes=given.minutes),
    ),
}


def measured(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """One figure with its conditions and verdict, or the failure."""
    described, before = machine.described(), machine.read_machine()
    sys.stderr.write(f"{name}: {FIGURES[name][0]}\n")
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as folder:
        try:
            found = FIGURES[name][1](Path(folder), given, before.speed)
        except Exception as error:  # noqa: BLE001 - the failure of one figure must not cost the others
            traceback.print_exc()  # a defect of the measurement must be visible, not only its name
            found = {"failed": f"{type(error).__name__}: {error}"}
    return judged(found, machine.conditions(before, machine.read_machine())) | {"machine": described}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measures the figures of the product.")
    parser.add_argument("--list", action="store_true", help="list the figures and exit")
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, separated by commas")
    parser.add_argument("--surges", type=int, default=6, help="each takes up to half a minute")
    parser.add_argument("--pairs", type=int, default=2, help="of surges in `policies`, a minute each")
    parser.add_argument("--idle-seconds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--rate", type=float, help="reports a second for `ingestion`; 2,000 at 5.0 M")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long `ingestion` and `fresh` are measured")
    parser.add_argument("--nodes", type=int, default=freshness.LARGE.nodes, help="of `fresh_10000`")
    parser.add_argument("--agents", type=int, default=10_000, help="of `agent_access`")
    parser.add_argument("--kube-nodes", type=int, default=500, help="of `kubernetes`")
    parser.add_argument("--kube-pods", type=int, default=5000, help="of `kubernetes`, on all nodes")
    parser.add_argument("--handovers", type=int, default=5, help="kills and stops of each service; ten seconds each")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long `soak` and `decisions_soak` take")
    parser.add_argument("--out", type=Path, default=ROOT / ".slackwater" / "bench.json")
    given = parser.parse_args()
    unknown = set(given.only.split(",")) - FIGURES.keys()
    if unknown:
        parser.error(f"--only: {', '.join(sorted(unknown))} unknown; allowed: {', '.join(FIGURES)}")
    return given


def main() -> int:
    given = arguments()
    if given.list:
        sys.stdout.write("".join(f"{name:12} {about}\n" for name, (about, _) in FIGURES.items()))
        return 0
    began = time.monotonic()
    found: dict[str, Any] = {"measured_at": datetime.now(UTC).isoformat(), "commit": commit()}
    wanted = given.only.split(",")
    try:
        for name in FIGURES:
            if name in wanted:
                found[name] = measured(name, given)
    except KeyboardInterrupt:
        sys.stdout.write(f"{table(found)}\ninterrupted: nothing was written\n")
        return EXIT_INTERRUPTED
    failed = any("failed" in figure for figure in found.values() if isinstance(figure, dict))
    status = exit_status(verdicts(found), failed=failed)
    found |= {"seconds": round(time.monotonic() - began, 1), "exit": status}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    given.out.write_text(text + "\n")
    given.out.with_suffix(".md").write_text(markdown(found))
    sys.stdout.write(f"{text}\n\n{table(found)}\nexit {status}: {SAID[status]}\n")
    return status


def commit() -> str:
    """The measured commit; empty outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
