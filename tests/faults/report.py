"""The result of a run: one JSON line per scenario, and an HTML page with a chart of the recovery times."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.scenario import Result, Scenario, percentile

LINES, PAGE = "results.jsonl", "summary.html"
_BOUND_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one scenario. `skipped` and `failure` are reasons, else empty."""

    scenario: Scenario
    seconds: float
    result: Result | None = None
    skipped: str = ""
    failure: str = ""

    @property
    def word(self) -> str:
        if self.skipped:
            return "skipped"
        return "passed" if self.result is not None and not self.failure and self.result.passed else "failed"

    def line(self) -> dict[str, object]:
        """The JSON line: counts of the ledger, times in seconds, sizes in bytes."""
        result = self.result or Result()
        counts = asdict(result.findings)
        took = result.recovery_seconds
        return {
            "scenario": self.scenario.name,
            "outcome": self.word,
            "skipped": self.skipped,
            "failure": self.failure or "; ".join(result.complaints() if self.result else []),
            **{name: counts[name] for name in ("offered", "acked", "lost", "duplicates", "phantom", "unknown", "gaps")},
            "gaps_unaccounted": counts["gaps_unaccounted"],
            "recoveries": len(took),
            "recovery_p50_seconds": round(percentile(took, 0.5), 3),
            "recovery_p99_seconds": round(percentile(took, 0.99), 3),
            "recovery_max_seconds": round(max(took, default=0.0), 3),
            "recovery_seconds": [round(one, 3) for one in took],
            "max_rss_bytes": result.max_rss_bytes,
            "seconds": round(self.seconds, 1),
            "load_average": round(os.getloadavg()[0], 2),
            "promises": result.promises,
            "facts": result.facts,
            "table": result.lines,
            "examples": list(result.findings.examples),
        }


def write_line(folder: Path, outcome: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LINES).open("a") as file:
        file.write(json.dumps(outcome.line(), default=str) + "\n")


def read_lines(folder: Path) -> list[dict[str, object]]:
    """The newest line of each scenario, in the order of their first runs."""
    found: dict[str, dict[str, object]] = {}
    for text in (folder / LINES).read_text().splitlines():
        line = json.loads(text)
        found[line["scenario"]] = line
    return list(found.values())


def write_page(folder: Path, titles: Sequence[Scenario]) -> Path:
    """Write the page for all lines of `results.jsonl`."""
    lines = read_lines(folder)
    names = {scenario.name: scenario.title for scenario in titles}
    page = folder / PAGE
    page.write_text(_page(lines, names))
    return page


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 17rem; }
.passed { color: #1a7f37; } .failed { color: #cf222e; font-weight: 600; } .skipped { color: #9a6700; }
details { margin: .4rem 0; } summary { cursor: pointer; } li.no { color: #cf222e; }
svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; background: #8881; padding: .6rem; }
"""


def _page(lines: Sequence[dict[str, object]], names: dict[str, str]) -> str:
    words = [str(line["outcome"]) for line in lines]
    counted = ", ".join(f"{words.count(word)} {word}" for word in ("passed", "failed", "skipped") if word in words)
    rows = "".join(_row(line, names) for line in lines)
    details = "".join(_details(line, names) for line in lines)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Slackwater under faults</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>
<h1>Slackwater under faults</h1>
<p>{counted}. Every scenario runs real processes under load. A ledger records each operation before it is sent and its
outcome after; at the end it is compared with PostgreSQL, the streams and the effects on nodes. Lost, duplicate and
invented facts must be 0; dropped telemetry must have been counted as a gap.</p>
<h2>Recovery</h2>{_picture(lines)}
<h2>Counts</h2><div class="scroll"><table><thead><tr><th>scenario<th>outcome<th>offered<th>acked<th>lost<th>doubled
<th>phantom<th>unknown<th>gaps<th>recovery p50<th>p99<th>max<th>memory<th>took</tr></thead><tbody>{rows}</tbody></table>
</div><h2>Promises and figures</h2>{details}</html>
"""


def _row(line: dict[str, object], names: dict[str, str]) -> str:
    word = str(line["outcome"])
    counts = "".join(f"<td>{line[name]}" for name in
                     ("offered", "acked", "lost", "duplicates", "phantom", "unknown", "gaps"))  # fmt: skip
    times = "".join(f"<td>{_seconds(line[f'recovery_{name}_seconds'])}" for name in ("p50", "p99", "max"))
    size = f"{int(str(line['max_rss_bytes'])) / 2**20:.0f} MiB" if line["max_rss_bytes"] else ""
    title = html.escape(names.get(str(line["scenario"]), str(line["scenario"])))
    return f'<tr><td>{title}<td class="{word}">{word}{counts}{times}<td>{size}<td>{line["seconds"]} s</tr>'


def _details(line: dict[str, object], names: dict[str, str]) -> str:
    word = str(line["outcome"])
    promises = line["promises"] if isinstance(line["promises"], dict) else {}
    items = "".join(f'<li class="{"yes" if kept else "no"}">{"✓" if kept else "✗"} {html.escape(text)}'
                    for text, kept in promises.items())  # fmt: skip
    reason = html.escape(str(line["skipped"] or line["failure"]))
    facts = html.escape(json.dumps(line["facts"], indent=1))
    lines = line.get("table")
    shown = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
    table = f"<pre>{html.escape(shown)}</pre>" if shown else ""
    title = html.escape(names.get(str(line["scenario"]), str(line["scenario"])))
    opened = " open" if word == "failed" else ""
    return (
        f'<details{opened}><summary><span class="{word}">{word}</span> {title}</summary>'
        f"<p>{reason}</p><ul>{items}</ul>{table}<pre>{facts}</pre></details>"
    )


def _picture(lines: Sequence[dict[str, object]]) -> str:
    """A dot per recovery on the line of its scenario, over seconds; a vertical line shows the bound."""
    shown = [line for line in lines if line["recovery_seconds"]]
    if not shown:
        return "<p>No scenario with recoveries has run.</p>"
    longest = max(max(_numbers(line)) for line in shown)
    span = max(_BOUND_SECONDS * 1.2, longest * 1.05)
    left, width, step = 190, 700, 26
    height = step * len(shown) + 40

    def x(seconds: float) -> float:
        return round(left + seconds / span * width, 1)

    rule = f'x1="{x(_BOUND_SECONDS)}" x2="{x(_BOUND_SECONDS)}" y1="6" y2="{height - 28}"'
    parts = [f'<line {rule} stroke="#cf222e" stroke-dasharray="4 3"/>']
    small = 'text-anchor="middle" font-size="12" fill="currentColor"'
    ticks = range(0, int(span) + 1, max(1, int(span) // 8))
    parts += [f'<text x="{x(tick)}" y="{height - 8}" {small}>{tick} s</text>' for tick in ticks]
    for number, line in enumerate(shown):
        y = step * number + 20
        parts.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end" font-size="13" fill="currentColor">'
                     f"{html.escape(str(line['scenario']))}</text>")  # fmt: skip
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#8884"/>')
        parts += [f'<circle cx="{x(one)}" cy="{y}" r="4" fill="#0969da" fill-opacity=".55"/>' for one in _numbers(line)]
    return (
        f'<svg viewBox="0 0 {left + width + 20} {height}" role="img" width="{left + width + 20}" '
        f'aria-label="Seconds from each fault until the victim worked again">{"".join(parts)}</svg>'
        f"<p>Seconds from each fault until the victim worked again; the broken line is the bound of "
        f"{_BOUND_SECONDS:g} s.</p>"
    )


def _numbers(line: dict[str, object]) -> list[float]:
    found = line["recovery_seconds"]
    return [float(one) for one in found] if isinstance(found, list) else []


def _seconds(value: object) -> str:
    return f"{float(str(value)):.2f} s" if value else ""
