"""Runs every backtest of docs/reference/backtest.md on real traces; writes backtest.csv beside it and its tables.

    nice -n 19 .venv/bin/python tools/backtest_figures.py ../shared/data [--only bitbrains] [--answers FOLDER]

The answers (JSON) are kept in a folder, and a run whose answer is there is not repeated: an hour of one core in all,
in parts if need be. What stands in the page above the tables is left as it is.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "backtest.md"
DATA = PAGE.with_suffix(".csv")
BEGIN = "<!-- tables: tools/backtest_figures.py -->"
OURS = ("workload-profile", "workload-profile:knob=0.20", "workload-profile:knob=0.15")
RATES = tuple(f"workload-profile:violation_rate={rate}" for rate in ("0.005", "0.01", "0.02", "0.05"))
ALL = ("all", "histogram:warm_seconds=86400", "workload-profile:knob=0.30", OURS[2], *RATES)


@dataclass(frozen=True, slots=True)
class Run:
    """One command; `trace` is relative to the folder of traces."""

    name: str
    trace: str
    form: str
    options: Sequence[str]
    models: Sequence[str] = ALL

    def command(self, folder: str, models: Sequence[str]) -> list[str]:
        given = ["--trace", f"{folder}{self.trace}", "--format", self.form, *self.options]
        return ["backtest", *given, "--models", ",".join(models)]


def _runs() -> Iterator[Run]:
    month, form = "bitbrains_rnd/rnd_2013-8.parquet", "bitbrains"
    google, alibaba = "google2011_machines", "alibaba2018_machine_usage"
    for resource in ("cpu", "memory"):
        only = ("--resource", resource)
        for churn in ("2d", "none"):
            options = (*only, "--churn", churn, "--seeds", "5")
            yield Run(f"bitbrains-{resource}-{churn}", month, form, options)
            yield Run(f"wrong-{resource}-{churn}", month, form, (*options, "--wrong-keys", "0.1"), OURS)
        yield Run(f"google-{resource}", google, "google2011", only)
        yield Run(f"google20-{resource}", google, "google2011", (*only, "--vms-per-node", "20"), (*OURS, *RATES))
        yield Run(f"alibaba-{resource}", alibaba, "alibaba2018", only)


RUNS = tuple(_runs())


COLUMNS = (
    *("run", "model", "violation", "violation_least", "violation_greatest", "violation_p90_machine"),
    *("severity", "savings", "savings_least", "savings_greatest"),
)
Row = Mapping[str, str]


def rows(run: Run, answer: dict[str, Any]) -> Iterator[Row]:
    """The figures of each model in percent, by column; without a range where nothing was drawn."""
    is_drawn = answer["placement"]["placements"] > 1
    for model in answer["models"]:
        violation, savings = model["violation"], model["savings"]
        figures = (
            run.name,
            model["model"],
            f"{violation['mean'] * 100:.2f}",
            *(f"{violation[name] * 100:.2f}" if is_drawn else "" for name in ("least", "greatest")),
            f"{model['violation_by_machine']['p90'] * 100:.1f}",
            f"{model['severity']['mean'] * 100:.2f}",
            f"{savings['mean'] * 100:.1f}",
            *(f"{savings[name] * 100:.1f}" if is_drawn else "" for name in ("least", "greatest")),
        )
        yield dict(zip(COLUMNS, figures, strict=True))


def run_line(run: Run, answer: dict[str, Any]) -> str:
    """Command and size of a run as a line of markdown, the same for both resources."""
    when = answer["evaluated"]
    options = " ".join(run.command("", ())[1:-2])
    for resource in ("cpu", "memory"):
        options = options.replace(f" --resource {resource}", "")
    name = run.name.replace("cpu", "RESOURCE").replace("memory", "RESOURCE")
    size = f"{answer['trace']['series']} series on {answer['placement']['machines']} machines"
    return f"- `{name}`: `{options}`; {size}, days {when['from_day']:g} to {when['to_day']:g}"


def overview(found: Sequence[Row], resource: str) -> Iterator[str]:
    """Violation and savings of the models with their defaults (rows) in the runs that have all of them (columns)."""
    names = [run.name for run in RUNS if resource in run.options and run.models is ALL]
    names = [name for name in names if any(row["run"] == name for row in found)]
    cells = {(row["run"], row["model"]): f"{row['violation']}, {row['savings']}" for row in found}
    models = dict.fromkeys(row["model"] for row in found if row["run"] in names and ":" not in row["model"])
    yield f"| model | {' | '.join(f'`{name}`' for name in names)} |"
    yield f"|---{'|---' * len(names)}|"
    for model in models:
        yield f"| {model} | {' | '.join(cells.get((name, model), '') for name in names)} |".replace("|  |", "| |")


def tables(sizes: Sequence[str], found: Sequence[Row]) -> Iterator[str]:
    """What stands behind the mark."""
    yield "### Runs\n"
    yield f"`slackwater backtest --resource RESOURCE` with `--models` as in [{DATA.name}]({DATA.name}), which has every"
    yield "run and model, the range over seeds, the p90 of the machines and the severity.\n"
    yield from dict.fromkeys(sizes)
    for resource, title in (("cpu", "CPU"), ("memory", "Memory")):
        yield f"\n### {title}: violation, savings in %\n"
        yield from overview(found, resource)


def written(page: str, lines: Sequence[str]) -> str:
    """The page with these tables in place of what is behind the mark. Raises ValueError without a mark."""
    before, mark, _ = page.partition(BEGIN)
    if not mark:
        raise ValueError(f"the page has no line {BEGIN}")
    return f"{before}{BEGIN}\n\n" + "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("traces", type=Path)
    parser.add_argument("--only", default="", help="names that begin with this")
    parser.add_argument("--answers", type=Path, default=ROOT / ".slackwater" / "backtests")
    given = parser.parse_args()
    given.answers.mkdir(parents=True, exist_ok=True)
    sizes: list[str] = []
    found: list[Row] = []
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
            answer = json.loads(kept.read_text())
            sizes.append(run_line(run, answer))
            found += rows(run, answer)
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    PAGE.write_text(written(PAGE.read_text(), list(tables(sizes, found))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
