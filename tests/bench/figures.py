"""Numbers for people and for JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = (
    "lost",
    "capacity_facts_per_second",
    "series_updates_per_second",
    "all_predictions_seconds",
    "recompute_seconds",
    "exceeded_share",
    "longest_episode",
)


def spread(seconds: Sequence[float], *, digits: int = 3) -> dict[str, Any]:
    """How many, median, p99 (nearest rank) and the largest."""
    if not seconds:
        return {"count": 0, "p50": None, "p99": None, "max": None}
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    values = {"p50": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
    return {"count": len(ordered), **{name: round(value, digits) for name, value in values.items()}}


def table(found: Mapping[str, Any]) -> str:
    """One line per figure that has a target: what was measured, the target, and whether it was met."""
    lines = []
    for name, figure in found.items():
        if isinstance(figure, Mapping) and "target" in figure:
            mark = "met   " if figure["passed"] else "MISSED"
            lines.append(f"{mark} {name:16} {_said(figure)}\n       {'':16} target: {figure['target']}")
        elif isinstance(figure, Mapping) and "failed" in figure:
            lines.append(f"FAILED {name:16} {figure['failed']}")
    return "\n".join(lines)


def _said(figure: Mapping[str, Any]) -> str:
    told = []
    for key, value in figure.items():
        if key in ("settled", "commit_to_stream", "surge_to_quota", "surge_to_below"):
            told.append(f"{key} p50 {value['p50']} s, p99 {value['p99']} s of {value['count']}")
        elif key in ("crossed_milliseconds", "report_to_intent_milliseconds"):
            told.append(f"p50 {value['p50']} ms, p99 {value['p99']} ms of {value['count']}")
        elif key == "reports_per_second":
            told.append(f"{value['stored'] if isinstance(value, Mapping) else value} reports/s")
        elif key in (
            "lost",
            "capacity_facts_per_second",
            "series_updates_per_second",
            "all_predictions_seconds",
            "recompute_seconds",
            "exceeded_share",
            "longest_episode",
        ):
            told.append(f"{key} {value}")
        elif key in ("killed", "planned"):
            told.append(f"{key}: " + ", ".join(_taken(part, line) for part, line in value.items()))
        elif key == "cores":
            told.append("cores " + ", ".join(f"{part} {used:.2f}" for part, used in value.items()))
        elif key == "parts":
            told.append(", ".join(f"{part} {line['mb_per_minute']:+.2f} MB/min" for part, line in value.items()))
    return "; ".join(told)


def _taken(service: str, figures: Mapping[str, Any]) -> str:
    whole = figures["every_partition"]
    return f"{service} p50 {whole['p50']} s, max {whole['max']} s"
