"""One HTML page that needs nothing else: facts, the whole run, the steps before the failure, and every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tests.world.timeline.history import Event, History, chain
from tests.world.timeline.overview import draw_overview
from tests.world.timeline.sequence import draw_sequence

_BLOCK = 200
"""Steps of a part of the list that opens and closes."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page tells of the run besides its record. `phases` with their lengths in virtual seconds."""

    seed: int
    digest: str
    size: str
    seconds: float
    phases: Sequence[tuple[str, float]]
    command: str


def render_page(history: History, facts: Facts) -> str:
    """Returns the page."""
    here = Path(__file__).parent
    invariant, _, seen = (history.violation.subject if history.violation else "every invariant holds").partition(": ")
    parts = (
        f"<title>seed {facts.seed}: {escape(invariant)}</title>",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{(here / 'page.css').read_text()}</style></head><body>",
        _header(history, facts, invariant, seen),
        f"<section><h2>The whole run</h2>{_legend()}{draw_overview(history, facts.seconds, facts.phases)}</section>",
        _filters(history),
        f"<section><h2>The last steps and the causal chain</h2>{draw_sequence(history)}</section>",
        f"<section><h2>Every step</h2>{_steps(history)}</section>",
        f"<script>{(here / 'page.js').read_text()}</script></body></html>",
    )
    return "\n".join(('<!doctype html><html lang="en"><head><meta charset="utf-8">', *parts))


def _header(history: History, facts: Facts, invariant: str, seen: str) -> str:
    css = "violated" if history.violation else "held"
    replay = facts.command
    until = ""
    if history.failed is not None and replay.endswith('"'):  # a mutant's history is not stopped at a step
        step = history.events[history.failed].n
        until = f"<dt>up to the failure</dt><dd><code>{escape(replay[:-1])} --until {step}&quot;</code></dd>"
    return (
        f'<header class="{css}"><p class="seed">seed {facts.seed} · record {facts.digest}</p>'
        f"<h1>{escape(invariant)}</h1><p>{escape(seen)}</p><dl><dt>size</dt><dd>{escape(facts.size)}</dd>"
        f"<dt>record</dt><dd>{len(history.events)} steps up to {history.end:.1f} s of virtual time</dd>"
        f"<dt>replay</dt><dd><code>{escape(replay)}</code></dd>{until}</dl></header>"
    )


def _legend() -> str:
    marks = (
        ("band", "fault"),
        ("tick many", "steps, darker where there are more"),
        ("bad", "crash or freeze"),
        ("good", "start, stop or resume"),
        ("failed", "violation"),
    )
    return '<p class="legend">' + "".join(f'<span class="{css}"></span>{name}' for css, name in marks) + "</p>"


def _filters(history: History) -> str:
    processes = Counter(event.lane or "world" for event in history.events)
    kinds = Counter(event.kind for event in history.events)
    names = [name for name in (*history.lanes, "world") if name in processes]
    return (
        '<nav><label><input type="checkbox" id="led"> causal chain only</label>'
        f"{_select('p', 'every process', names, processes)}{_select('k', 'every kind', sorted(kinds), kinds)}"
        '<label>text <input id="t" placeholder="node-03, an event id, …"></label><output></output></nav>'
    )


def _select(key: str, every: str, names: Sequence[str], counts: Counter[str]) -> str:
    options = "".join(f'<option value="{escape(n)}">{escape(n)} ({counts[n]})</option>' for n in names)
    return f'<select id="{key}"><option value="">{every}</option>{options}</select>'


def _steps(history: History) -> str:
    """The list in parts: the one of the failure is open."""
    led, blocks = chain(history), []
    for start in range(0, len(history.events), _BLOCK):
        part = range(start, min(start + _BLOCK, len(history.events)))
        first, last = history.events[part[0]], history.events[part[-1]]
        is_open = " open" if history.failed in part else ""
        rows = "".join(_row(history.events[place], place in led, place == history.failed) for place in part)
        name = f"steps {first.n} to {last.n} · {first.at:.1f} s to {last.at:.1f} s"
        blocks.append(f"<details{is_open}><summary>{name}</summary><table>{rows}</table></details>")
    return "".join(blocks)


def _row(event: Event, is_led: bool, is_failed: bool) -> str:
    css = f"step {event.kind.partition('.')[0]}" + " led" * is_led + " failed" * is_failed
    cells = (f"{event.n}", f"{event.at:.3f}", event.lane, event.kind, event.text, event.cause[-6:])
    name = escape(event.lane or "world")
    return (
        f'<tr id="s{event.n}" class="{css}" data-p="{name}" data-k="{escape(event.kind)}">'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    )
