"""CPU time of ensurance per report, without broker and PostgreSQL: calm, with throttled pods, and at a crossing of a
waterline (plan, record, intent)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.verdict import Scale, Target

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "ensurance"))
from ensurance_scene import Scene, described, reported

from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported

NODES, TARGET_REPORTS = 200, 2000
CPU_MILLI = 16_000
CALM, CROSSED, BELOW = 0.02, 0.4, 0.05


def measure(rounds: int = 10) -> dict[str, Any]:
    """CPU time of this process, the best round, because other work only adds time."""
    calm = asyncio.run(_seconds(rounds, pods=30, pressures=(CALM,)))
    crossed = asyncio.run(_seconds(1, pods=110, pressures=(CROSSED,)))
    held = asyncio.run(_seconds(1, pods=110, pressures=(CROSSED, BELOW)))
    return {
        "reports_per_second": round(1 / calm),
        "calm_microseconds": round(1e6 * calm, 1),
        "crossing_milliseconds_110_pods": round(1e3 * crossed, 2),
        "held_milliseconds_110_pods": round(1e3 * held, 2),
        "targets": (Target("calm reports of 30 pods", round(1 / calm), TARGET_REPORTS, "/s", Scale.RATE),),
    }


async def _seconds(rounds: int, *, pods: int, pressures: Sequence[float]) -> float:
    """Seconds per report with the last pressure; the earlier pressures create the situation."""
    scene = await Scene().open(*(f"n{number}" for number in range(NODES)))
    for node in range(NODES):  # 110 pods on fewer cores are refused as implausible
        await scene.describe(described(f"n{node}", CPU_MILLI, at=scene.clock.now()))
    best, sequence = float("inf"), 0
    for pressure in pressures[:-1]:
        sequence += 1
        for event in _reports(scene, sequence, pods, pressure):
            await scene.guard(event)
    for _ in range(rounds):
        sequence += 1
        events = _reports(scene, sequence, pods, pressures[-1])
        before = time.process_time()
        for event in events:
            await scene.guard(event)
        best = min(best, (time.process_time() - before) / len(events))
    return best


def _reports(scene: Scene, sequence: int, pods: int, pressure: float) -> list[Event[UsageReported]]:
    batch, now = {f"b{number}": 100 for number in range(pods - 1)}, scene.clock.now()
    return [reported(sequence, at=now, pressure=pressure, node=f"n{number}", batch=batch) for number in range(NODES)]
