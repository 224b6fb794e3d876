"""Formats figures for the terminal, the documentation and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.bench.verdict import Conditions, Target, Verdict, judge

HEAD = "| figure | target at 5.0 M | seen | calibration | steal | commit |\n|---|---|---|---|---|---|"


def spread(seconds: Sequence[float], *, digits: int = 3) -> dict[str, Any]:
    """Count, median, p99 (nearest rank) and maximum."""
    if not seconds:
        return {"count": 0, "p50": None, "p99": None, "max": None}
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    values = {"p50": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
    return {"count": len(ordered), **{name: round(value, digits) for name, value in values.items()}}


def judged(found: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """A figure as it is stored: with its conditions and, if it has targets, the verdict."""
    figure = dict(found)
    targets: Sequence[Target] = figure.pop("targets", ())
    stored = figure | {"conditions": asdict(conditions) | {"calibration": round(conditions.calibration)}}
    if not targets:
        return stored
    judgement, speed = judge(targets, conditions), conditions.speed
    lines = [
        {
            "what": target.what,
            "seen": target.seen,
            "told": target.told(),
            "target": f"{target.what} {target.bound()}",
            "here": target.bound(speed),
            "scale": target.scale.value,
            "met": target.is_met(speed),
        }
        for target in targets
    ]
    return stored | {"verdict": judgement.verdict.value, "why": judgement.why, "targets": lines}


def verdicts(found: Mapping[str, Any]) -> list[Verdict]:
    return [Verdict(figure["verdict"]) for _, figure in _figures(found) if "verdict" in figure]


def table(found: Mapping[str, Any]) -> str:
    """A table for the terminal: the verdict of each figure with a target or failure, and its ratios to peers."""
    lines = []
    for name, figure in _figures(found):
        if "failed" in figure:
            lines.append(f"{'FAILED':15} {name:20} {figure['failed']}")
        elif "verdict" in figure:
            seen = "; ".join(f"{line['told']} ({line['here']} here)" for line in figure["targets"])
            lines.append(f"{figure['verdict']:15} {name:20} {seen}")
            if figure["why"]:
                lines.append(f"{'':15} {'':20} {figure['why']}")
        lines += [f"{'':15} {name:20} {ratio['told']}" for ratio in figure.get("ratios", ())]
    return "\n".join(lines)


def markdown(found: Mapping[str, Any]) -> str:
    """Rows in the format of docs/reference/figures.md."""
    rows = [HEAD]
    for name, figure in _figures(found):
        if "conditions" not in figure or not (figure.get("targets") or figure.get("ratios")):
            continue
        given = figure["conditions"]
        targets, ratios = figure.get("targets", ()), figure.get("ratios", ())
        wanted = "; ".join(line["target"] for line in targets)
        seen = "; ".join([line["told"] for line in targets] + [ratio["told"] for ratio in ratios])
        if "verdict" in figure:
            seen += f": **{figure['verdict']}**"
        measured = f"{given['calibration'] / 1e6:.1f} M | {given['steal']:.1%} | {found['commit']}"
        rows.append(f"| `{name}` | {wanted} | {seen} | {measured} |")
    return "\n".join(rows) + "\n"


def _figures(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, figure in found.items():
        if isinstance(figure, Mapping) and ("conditions" in figure or "failed" in figure):
            yield name, figure
