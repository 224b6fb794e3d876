"""Runs every backtest of docs/reference/backtest.md on real traces and writes its tables anew.

    nice -n 19 .venv/bin/python tools/backtest_figures.py ../shared/data [--only bitbrains] [--answers FOLDER]

The answers (JSON) are kept in a folder, and a run whose answer is there is not repeated: an hour of one core in all,
in parts if need be. What stands in the page above the tables is left as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "backtest.md"
BEGIN = "<!-- tables: tools/backtest_figures.py -->"
OURS = ("workload-profile", "workload-profile:knob=0.20", "workload-profile:knob=0.15")
RATES = tuple(f"workload-profile:violation_rate={rate}" for rate in ("0.005", "0.01", "0.02", "0.05"))
ALL = ("all", "histogram:warm_seconds=86400", "workload-profile:knob=0.30", OURS[2], *RATES)


@dataclass(frozen=True, slots=True)
class Run:
    """One command; `trace` is relative to the folder of traces."""

    name: str
    title: str
    trace: str
    form: str
    options: Sequence[str]
    models: Sequence[str] = ALL

    def command(self, folder: str, models: Sequence[str]) -> list[str]:
        given = ["--trace", f"{folder}{self.trace}", "--format", self.form, *self.options]
        return ["backtest", *given, "--models", ",".join(models)]


def _runs() -> Iterator[Run]:
    month, form = "bitbrains_rnd/rnd_2013-8.parquet", "bitbrains"
    for resource in ("cpu", "memory"):
        for churn, said in (("2d", "churn of 2 days"), ("none", "nobody moves")):
            options = ("--resource", resource, "--churn", churn, "--seeds", "5")
            title = f"Bitbrains August 2013, {resource}, {said}"
            yield Run(f"bitbrains-{resource}-{churn}", title, month, form, options)
            wrong = (*options, "--wrong-keys", "0.1")
            yield Run(f"wrong-{resource}-{churn}", f"{title}, 10 % wrong keys", month, form, wrong, OURS)
    for resource in ("cpu", "memory"):
        only = ("--resource", resource)
        google, alibaba = "google2011_machines", "alibaba2018_machine_usage"
        yield Run(f"google-{resource}", f"Google 2011, whole machines, {resource}", google, "google2011", only)
        twenty = f"Google 2011, {resource}, twenty machines as the pods of one"
        as_pods = (*only, "--vms-per-node", "20")
        yield Run(f"google20-{resource}", twenty, google, "google2011", as_pods, (*OURS, *RATES))
        title = f"Alibaba 2018, whole colocated machines, {resource}"
        yield Run(f"alibaba-{resource}", title, alibaba, "alibaba2018", only)


RUNS = tuple(_runs())


def table(run: Run, answer: dict[str, Any]) -> Iterator[str]:
    """Title, command and figures as markdown, models with equal figures in one row."""
    when, placed = answer["evaluated"], answer["placement"]
    seeds = " [seeds]" if placed["placements"] > 1 else ""
    yield f"### {run.title}\n"
    judged = [one["model"] for one in answer["models"][1:]]
    yield f"`slackwater {' '.join(run.command('', judged))}`\n"
    series = answer["trace"]["series"]
    yield f"{series} series, {placed['machines']} machines, day {when['from_day']:g} to {when['to_day']:g}.\n"
    yield f"| model | violation %{seeds} | p90 machine | severity % | savings %{seeds} |"
    yield "|---|---|---|---|---|"
    for cells, names in _rows(answer["models"], bool(seeds)).items():
        yield f"| {', '.join(names)} | {' | '.join(cells)} |"
    yield ""


def _rows(models: Sequence[dict[str, Any]], ranged: bool) -> dict[tuple[str, ...], list[str]]:
    """The models of each row: those with equal figures share one."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for model in models:
        cells = (
            _spread(model["violation"], 2, ranged),
            f"{model['violation_by_machine']['p90'] * 100:.1f}",
            f"{model['severity']['mean'] * 100:.2f}",
            _spread(model["savings"], 1, ranged),
        )
        rows.setdefault(cells, []).append(model["model"])
    return rows


def _spread(spread: dict[str, float], digits: int, ranged: bool) -> str:
    mean, least, greatest = (f"{spread[name] * 100:.{digits}f}" for name in ("mean", "least", "greatest"))
    return f"{mean} [{least}..{greatest}]" if ranged else mean


def written(page: str, tables: Sequence[str]) -> str:
    """The page with these tables in place of what is behind the mark. Raises ValueError without a mark."""
    before, mark, _ = page.partition(BEGIN)
    if not mark:
        raise ValueError(f"the page has no line {BEGIN}")
    return f"{before}{BEGIN}\n\n" + "\n".join(tables).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("traces", type=Path)
    parser.add_argument("--only", default="", help="names that begin with this")
    parser.add_argument("--answers", type=Path, default=ROOT / ".slackwater" / "backtests")
    given = parser.parse_args()
    given.answers.mkdir(parents=True, exist_ok=True)
    tables: list[str] = []
    for run in RUNS:
        kept = given.answers / f"{run.name}.json"
        if not kept.is_file() and run.name.startswith(given.only):
            command = [
                sys.executable,
                "-m",
                "slackwater.cli",
                *run.command(f"{given.traces}/", run.models),
                "-o",
                "json",
            ]
            sys.stderr.write(f"{run.name}\n")
            kept.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if kept.is_file():
            tables += table(run, json.loads(kept.read_text()))
    PAGE.write_text(written(PAGE.read_text(), tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
