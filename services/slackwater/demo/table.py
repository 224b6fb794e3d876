"""Renders the summary as a table."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from slackwater.demo import versus
from slackwater.demo.scenes.result import SceneReport, SceneSummary
from slackwater.demo.summary import (
    ALONE,
    PAIRS,
    PLAIN,
    SLACKWATER,
    WEIGHTS,
    Phase,
    RunCounts,
    RunSummary,
    disturbance,
    last_line,
    needed_no_throttle,
    nth,
    pairs,
    reported_pairs,
)
from slackwater.model.plurals import counted
from slackwater.model.quantities import format_cpu, format_memory

TITLES = {
    PLAIN: "plain sharing",
    WEIGHTS: "tier weights only",
    ALONE: "service alone",
    SLACKWATER: "Slackwater",
    **{
        nth(name, number): f"{title} {number}"
        for number in range(2, PAIRS + 1)
        for name, title in ((ALONE, "service alone"), (SLACKWATER, "Slackwater"))
    },
}


def console() -> Console:
    """A console as wide as the terminal, or wide enough for the table if the output is a file."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=130)


def show(summary: RunSummary, console: Console) -> None:
    """Print phases, reaction times, counts, leftovers and the conclusion."""
    for scene in summary.scenes.values():
        if scene.rows:
            console.print(scene_table(scene))
    if summary.phases and not summary.scenes:
        console.print(phases_of(summary.phases))
    if summary.comparison.outcomes and not summary.scenes:
        console.print(versus.compared(summary.comparison))
    for line in lines(summary):
        console.print(line, markup=False, soft_wrap=True)


def _totals(counts: RunCounts) -> str:
    totals = (
        counted(counts.reports, "report"),
        counted(counts.windows, "window"),
        counted(counts.predictions, "prediction"),
        counted(counts.offers, "offer"),
    )
    return ", ".join(totals)


def lines(summary: RunSummary) -> list[str]:
    """The lines below the table of phases."""
    reaction, counts = summary.reaction, summary.counts
    if summary.scenes:
        return [
            *scene_lines(summary.scenes),
            _decided(counts),
            *_offers(summary),
            *_pictures(summary.scenes),
            *_end(summary),
        ]
    texts = [
        f"driver: {summary.driver}{f' ({summary.driver_note})' if summary.driver_note else ''}",
        f"surge -> quota lowered: {_seconds(reaction.seconds_to_lowered)}",
        f"surge -> relief (pressure at or below {summary.waterline or 0:.3f}): {_seconds(reaction.seconds_to_relief)}",
        f"surge over -> fully restored: {_seconds(reaction.seconds_to_restored)}",
        _totals(counts),
        _decided(counts),
    ]
    if needed_no_throttle(summary):
        highest = summary.phases[SLACKWATER].pressure_p90 or 0
        texts.append(f"prod's CPU pressure stayed near the waterline (p90 {highest:.3f}): no throttle was needed")
    if len(measured := pairs(summary.phases)) == PAIRS:
        texts.append(f"p99 under Slackwater and its bound, by pair: {reported_pairs(measured)} ms; the median decides")
    texts.extend(_offers(summary))
    texts.extend(versus.lines(summary.comparison))
    if summary.conclusion:
        texts.append(summary.conclusion)
    if disturbed := disturbance(summary.phases, float(summary.machine.get("cpus", 0)) or math.inf):
        texts.append(disturbed)
    return [*texts, *_end(summary)]


def _decided(counts: RunCounts) -> str:
    return "decisions: " + (", ".join(f"{n} {kind}" for kind, n in sorted(counts.decisions.items()) if n) or "none")


def _pictures(scenes: Mapping[str, SceneSummary]) -> list[str]:
    files = [scene.picture for scene in scenes.values() if scene.picture]
    return [f"pictures: {', '.join(files)}"] if files else []


def _offers(summary: RunSummary) -> list[str]:
    return [
        f"last offer of {offer.node}: {format_cpu(offer.cpu_milli)} CPU, {format_memory(offer.memory_bytes)} ("
        + ", ".join(f"{subject} {decision}" for subject, decision in sorted(offer.decision_ids.items()))
        + ")"
        for offer in summary.offers[:3]
    ]


def _end(summary: RunSummary) -> list[str]:
    texts = []
    if summary.finished:
        restored = {True: "true", False: "FALSE", None: "unknown"}[summary.restored_exactly]
        texts.append(
            f"restored_exactly: {restored} ({summary.restored_files} files); left behind: {len(summary.leftovers)}"
        )
    if summary.took_seconds is not None and summary.seconds is not None:
        more = "; two more pairs were measured" if len(pairs(summary.phases)) == PAIRS else ""
        texts.append(f"took {summary.took_seconds:.0f} s of the requested {summary.seconds} s{more}")
    texts.extend(f"FAILED: {failure}" for failure in summary.failures)
    if summary.finished:
        texts.append(last_line(summary))
    return texts


def scene_table(report: SceneReport) -> Table:
    """A table with a row per turn of a scene."""
    table = Table(title=report.title, title_justify="left")
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=not number)
    for row in report.rows:
        table.add_row(*row)
    return table


def scene_lines(scenes: Mapping[str, SceneSummary]) -> list[str]:
    """What the scenes say, and which there was no time for."""
    found = [text for scene in scenes.values() for text in scene.sentences]
    found += [f"{name}: skipped, {scene.skipped}" for name, scene in scenes.items() if scene.skipped]
    return [*found, *(f"NOT MEASURABLE: {text}" for scene in scenes.values() for text in scene.not_measurable)]


def phases_of(phases: Mapping[str, Phase]) -> Table:
    """A table with a row per phase."""
    table = Table(title=f"the same surge, {len(phases)} times", title_justify="left")
    table.add_column("", no_wrap=True)
    for column in (
        "req/s",
        "p50 ms",
        "p99 ms",
        "errors",
        "prod\npressure",
        "p90",
        "prod\nCPU",
        "batch\nCPU",
        "other\nCPU",
    ):
        table.add_column(column, justify="right")
    for name, title in TITLES.items():
        if name in phases:
            table.add_row(title, *_cells(phases[name]))
    return table


def _cells(phase: Phase) -> tuple[str, ...]:
    return (
        f"{phase.request_rate:.0f}",
        _number(phase.p50_ms, 1),
        _number(phase.p99_ms, 1),
        str(phase.errors),
        _number(phase.pressure_mean, 3),
        _number(phase.pressure_p90, 3),
        f"{phase.prod_cpu:.2f}",
        f"{phase.batch_cpu:.2f}",
        f"{phase.other_cpu:.2f}",
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
