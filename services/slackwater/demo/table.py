"""Renders the summary as a table."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from slackwater.demo import versus
from slackwater.demo.scenes import memory_result
from slackwater.demo.scenes.memory_result import ENDINGS, MemoryScene
from slackwater.demo.summary import (
    ALONE,
    MEMORY_SCENE,
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
    if summary.memory is not None and summary.memory.turns:
        console.print(memory_turns(summary.memory))
    if summary.phases:
        console.print(phases_of(summary.phases))
    if summary.comparison.outcomes:
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
    memory = [] if summary.memory is None else memory_result.sentences(summary.memory)
    if summary.scene == MEMORY_SCENE:
        return [*memory, *_end(summary)]
    texts = [
        *memory,
        f"driver: {summary.driver}{f' ({summary.driver_note})' if summary.driver_note else ''}",
        f"surge -> quota lowered: {_seconds(reaction.seconds_to_lowered)}",
        f"surge -> relief (pressure at or below {summary.waterline or 0:.3f}): {_seconds(reaction.seconds_to_relief)}",
        f"surge over -> fully restored: {_seconds(reaction.seconds_to_restored)}",
        _totals(counts),
        "decisions: " + (", ".join(f"{n} {kind}" for kind, n in sorted(counts.decisions.items()) if n) or "none"),
    ]
    if needed_no_throttle(summary):
        highest = summary.phases[SLACKWATER].pressure_p90 or 0
        texts.append(f"prod's CPU pressure stayed near the waterline (p90 {highest:.3f}): no throttle was needed")
    if len(measured := pairs(summary.phases)) == PAIRS:
        texts.append(f"p99 under Slackwater and its bound, by pair: {reported_pairs(measured)} ms; the median decides")
    for offer in summary.offers[:3]:
        ids = ", ".join(f"{subject} {decision}" for subject, decision in sorted(offer.decision_ids.items()))
        texts.append(
            f"last offer of {offer.node}: {format_cpu(offer.cpu_milli)} CPU, "
            f"{format_memory(offer.memory_bytes)} ({ids})"
        )
    texts.extend(versus.lines(summary.comparison))
    if summary.conclusion:
        texts.append(summary.conclusion)
    if disturbed := disturbance(summary.phases, float(summary.machine.get("cpus", 0)) or math.inf):
        texts.append(disturbed)
    return [*texts, *_end(summary)]


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


def memory_turns(scene: MemoryScene) -> Table:
    """A table with a row per turn of the memory scene."""
    title = f"prod grows to {scene.prod_end_mib} MiB in a parent of {scene.limit_mib} MiB"
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for column in ("prod", "MiB\nheld", "slowest\nMiB ms", "batch\nrunning", "ended with\na checkpoint", "killed"):
        table.add_column(column, justify="right")
    for turn in scene.turns:
        table.add_row(
            {memory_result.PLAIN: "plain", memory_result.SLACKWATER: "Slackwater"}[turn.variant],
            "finished" if turn.prod_finished else "killed",
            str(turn.prod_mib),
            f"{turn.slowest_mib_ms:.1f}",
            *(str(turn.ended(how)) for how in ENDINGS),
        )
    return table


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
