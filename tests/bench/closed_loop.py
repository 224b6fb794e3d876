"""The closed loop on a real trace: VMs are prod, models predict, batch fills every offer. Measures excess usage.

20 VMs per node, each a pod that requests its limit. The capacity of a node is the maximum combined limit of its VMs, so
prod alone never overcommits it. One control period is one cell of the trace, five minutes: thirty times an agent's
period, in which nothing is reclaimed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.verdict import Target

from slackwater.offers.closed_loop import Loop, LoopFigures, closed_loops
from slackwater.offers.strategy import Strategy
from slackwater.simulation.adapters.trace_history import TraceHistory, TraceLayout, both, placed
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS

TRACES = Path(os.environ.get("SLACKWATER_TRACES", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
FIXTURE = TRACES / "bitbrains_rnd" / "fixture_60vm_4weeks.parquet"
WHOLE = TRACES / "bitbrains_rnd" / "rnd_2013-8.parquet"
GOOGLE = TRACES / "google2011_machines" / "usage_5min.parquet"
PER_NODE = 20
TARGET = 0.001
STRATEGIES = {
    "default": Strategy(),
    "without_margin": Strategy(cpu_reclaim_threshold_percent=100, memory_reclaim_threshold_percent=100),
}
"""The judged configuration, and prediction alone for comparison."""


def measure(days: float | None = None) -> dict[str, Any]:
    """VMs that stay, VMs with a mean stay of two days, and whole machines.

    Raises OSError if the traces are missing.
    """
    if not (WHOLE.is_file() and GOOGLE.is_file()):
        raise OSError(f"no real traces at {TRACES}: set SLACKWATER_TRACES")
    found = {
        "bitbrains": _said(run(WHOLE, days=days)),
        "bitbrains_churn": _said(run(WHOLE, churn_days=2.0, days=days)),
        "google_machines": _said(run(GOOGLE, days=days, form=TraceFormat.GOOGLE2011)),
    }
    judged = [figures for trace in found.values() for figures in trace["default"].values()]
    worst, longest = (max(each[name] for each in judged) for name in ("exceeded_share", "longest_episode"))
    return {
        "targets": (
            Target("beyond capacity", 100 * worst, 100 * TARGET, "% of node periods"),
            Target("longest episode", longest, 2, "control periods"),
        ),
        "exceeded_share": worst,
        "longest_episode": longest,
        **found,
    }


def run(
    path: Path,
    *,
    churn_days: float | None = None,
    days: float | None = None,
    model: str = "workload-profile",
    form: TraceFormat = TraceFormat.BITBRAINS,
) -> dict[str, Loop]:
    """Starts at the beginning of the trace, so the figures include cold starts."""
    traces = both(path, form, tuple(TraceResource))
    first = traces[TraceResource.CPU]
    cells = first.cells if days is None else min(int(days * DAY_CELLS), first.cells)
    on_nodes = placed(traces, TraceLayout(None if first.whole_machines else PER_NODE, churn_days))
    periods = TraceHistory(on_nodes, model, 0, cells).periods()
    return dict(zip(STRATEGIES, closed_loops(periods, list(STRATEGIES.values())), strict=True))


def _said(loops: Mapping[str, Loop]) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {"cpu": _figures(loop.cpu), "memory": _figures(loop.memory)} for name, loop in loops.items()}


def _figures(figures: LoopFigures) -> dict[str, float]:
    told = {key: round(value, 5) for key, value in asdict(figures).items()}
    hours = round(figures.periods * CELL_SECONDS / 3600)
    return {**told, "exceeded_share": round(figures.exceeded_share, 6), "node_hours": hours}
