"""Draws a plan from a seed. Each seed has some kinds of faults and not others, at rates and sizes of its own, so that
rare branches become common in some runs (swarm testing, Groce et al. 2012)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.world.changes import planned_changes
from tests.world.faults import (
    AGENT_AWAY,
    AGENT_CUT,
    AGENT_RESTARTS,
    ATTACKS,
    CONSOLE_CRASHES,
    CONSOLE_CUT,
    KILLED_AT_A_FILE,
    KILLED_AT_A_ROSTER,
    LONG_READ_ONLY,
    MACHINE_VANISHES,
    RACK_POWER,
    REFUSED_EVICTIONS,
    ROLLED,
    FaultKind,
    fault_kinds,
)
from tests.world.moves import moves_alone
from tests.world.pace import paced
from tests.world.plan import BROKER, POSTGRES, Plan, PlannedFault, agents, replicas
from tests.world.quotas import quotas_alone, with_quotas
from tests.world.settling import settling_seconds
from tests.world.storms import with_storm

SLOW_LINK_SECONDS, SMALLEST_OF_SLOW_LINK = 0.2, 3
"""One report at a time over a slow link takes as long as the agents take to send it: a queue that outlives its faults
is then no defect. Several agents that report each sample need more at a time: as many as there are."""
CONSOLE_SHARE = 0.25
STARTED_SECONDS = 20.0
"""No fault before: every history begins with a world that works."""
SKEW_SECONDS = 8.0
"""Of replicas in some seeds: as far apart as ensurance takes reports."""
DRAWN_APART = (
    (KILLED_AT_A_FILE, 0.4, 10),
    (ROLLED, 0.4, 10),
    (CONSOLE_CRASHES, 0.4, 10),
    (CONSOLE_CUT, 0.4, 10),
    (AGENT_AWAY, 0.3, 10),
    (LONG_READ_ONLY, 0.3, 1),
    (AGENT_CUT, 0.3, 10),
    (RACK_POWER, 0.3, 10),
    (AGENT_RESTARTS, 0.25, 2),
    *((attack, 0.1, 2) for attack in ATTACKS),
    (REFUSED_EVICTIONS, 0.3, 5),
    (KILLED_AT_A_ROSTER, 0.3, 5),
)
"""Kinds with a random source of their own, the share of seeds that have them, and the most faults of a seed: its other
faults do not depend on them."""


def draw(seed: int, *, nodes: int = 10, seconds: float = 600.0, quotas: bool = False, moves: bool = False) -> Plan:
    """Returns the plan of a seed. `nodes` and `seconds` are the largest sizes; `quotas`: a world of quotas alone,
    `moves`: one of moves alone."""
    plan = _whole(seed, nodes=nodes, seconds=seconds)
    if moves:
        return moves_alone(plan)
    return quotas_alone(plan) if quotas else with_quotas(plan)


def _whole(seed: int, *, nodes: int, seconds: float) -> Plan:
    rng = Random(f"plan of {seed}")
    fault_seconds = seconds * 0.65
    plan = Plan(
        seed,
        nodes=rng.choice((1, 2, 3, nodes, nodes, nodes)) if nodes > 3 else nodes,
        replicas=rng.choice((1, 2, 2, 2, 3)),
        clients=rng.randint(0, 2),
        fault_seconds=fault_seconds,
        quiet_seconds=seconds * 0.25,
        rest_seconds=seconds * 0.10,
        in_order=rng.random() < 0.2,
        delay_seconds=rng.choice((0.0001, 0.001, 0.01)),
        spread_seconds=rng.choice((0.0, 0.002, 0.02, 0.2)),
        reorders=rng.random() < 0.2,
    )
    plan = replace(plan, consoles=int(Random(f"console and its reader in seed {seed}").random() < CONSOLE_SHARE))
    settings = paced(_settings(rng, seed), seed, seconds)
    if plan.spread_seconds >= SLOW_LINK_SECONDS:
        smallest = max(SMALLEST_OF_SLOW_LINK, plan.nodes)
        settings["ingestion"]["batch"] = max(smallest, settings["ingestion"]["batch"])
    plan = replace(plan, settings=settings, **_clocks(rng, plan))
    skewed = Random(f"skew of {seed}")
    if skewed.random() < 0.3:
        plan = replace(
            plan, clock_offsets={name: skewed.uniform(-SKEW_SECONDS, SKEW_SECONDS) for name in replicas(plan)}
        )
    plan = replace(plan, quiet_seconds=max(plan.quiet_seconds, settling_seconds(plan)))
    apart = {MACHINE_VANISHES, *(kind for kind, *_ in DRAWN_APART)}
    kinds = [kind for kind in fault_kinds().values() if kind not in apart and rng.random() < 0.4]
    faults = [fault for kind in kinds for fault in _faults(rng, plan, kind)]
    for kind, share, most in DRAWN_APART:
        own = Random(f"{kind.name} of {seed}")
        if own.random() < share:
            faults += _faults(own, plan, kind)[:most]
    faults.sort(key=lambda fault: fault.at)
    return with_storm(replace(plan, faults=tuple(faults), changes=planned_changes(rng, plan)))


def _quota_after_seconds(seed: int) -> float:
    """Returns how long quotas wait for CPU weights. Most histories are too short for the default, and show quotas at
    once. A generator of its own leaves the rest of every plan as it was."""
    return 20.0 if Random(f"wait of quotas of {seed}").random() < 0.2 else 0.0


def _faults(rng: Random, plan: Plan, kind: FaultKind) -> list[PlannedFault]:
    targets = kind.targets(plan)
    if not targets:
        return []
    longest = kind.seconds[0] + (kind.seconds[1] - kind.seconds[0]) * rng.random() ** 2
    faults = []
    for _ in range(rng.choice((1, 1, 2, 3, 5, 10))):
        seconds = rng.uniform(kind.seconds[0], longest)
        latest = plan.fault_seconds - seconds
        if latest > STARTED_SECONDS:
            at = rng.uniform(STARTED_SECONDS, latest)
            faults.append(PlannedFault(kind.name, rng.choice(targets), at, seconds, rng.uniform(*kind.amount)))
    return faults


def _clocks(rng: Random, plan: Plan) -> dict[str, Any]:
    hosts = [BROKER, POSTGRES, *replicas(plan), *agents(plan)]
    skew = rng.choice((0.0, 0.0, 0.1, 2.0))
    drift = rng.choice((0.0, 0.0, 1e-4, 1e-3))
    return {
        "clock_offsets": {host: rng.uniform(-skew, skew) for host in hosts},
        "clock_rates": {host: 1.0 + rng.uniform(-drift, drift) for host in hosts},
    }


def _settings(rng: Random, seed: int) -> dict[str, dict[str, Any]]:
    """Returns the settings of each service, before the length of the history has a say (tests.world.pace)."""
    ageing = Random(f"ageing of {seed}")
    window = rng.choice((10, 20, 60, 60))
    sample = rng.choice((1.0, 2.0, 5.0, 5.0, 5.0, 5.0))
    report = max(sample, rng.choice((2.0, 5.0, 10.0, 10.0, 10.0)))
    beat = rng.choice((1.0, 2.0, 5.0, 5.0, 5.0))
    return {
        "ownership": {"beat": beat, "ttl": beat * rng.choice((3, 5)), "hand_over": rng.choice((1.0, 5.0))},
        "agent": {
            "report_seconds": report,
            "sample_seconds": sample,
            "buffered_reports": rng.choice((1, 4, 24)),
        },
        "ingestion": {
            "report_interval_seconds": report,
            "window_seconds": window,
            "stagger_windows": rng.random() < 0.7,
            "lateness_seconds": rng.choice((0.0, 5.0, 15.0)),
            "batch": rng.choice((1, 3, 50, 500, 500, 500)),
        },
        "prediction": {
            "snapshot_seconds": rng.choice((5.0, 30.0, 120.0)),
            "keep_snapshots": rng.choice((1, 2)),
            "histogram_update_seconds": rng.choice((10.0, 30.0, 30.0)),
            "reporting_seconds": rng.choice((20.0, 60.0, 60.0)),
        },
        "colocation": {
            "rise_windows": rng.choice((1, 2)),
            "age_check_seconds": rng.choice((2.0, 10.0, 10.0)),
            "full_pass_seconds": rng.choice((20.0, 60.0)),
            "decay_from_seconds": 60.0 if rng.random() < 0.3 else 180.0,
            **({"decay_from_seconds": 20.0, "decay_to_seconds": 240.0} if ageing.random() < 0.4 else {}),
        },
        "ensurance": {
            "mode": rng.choice(("throttle", "evict", "evict", "observe")),
            "lease_seconds": rng.choice((5.0, 15.0, 60.0)),
            "silent_seconds": rng.choice((20.0, 60.0)),
            "closing_seconds": rng.choice((20.0, 120.0)),
            "quota_after_seconds": _quota_after_seconds(seed),
        },
    }
