"""The timeline on a terminal: the last steps before the failure and those that led to it."""

from __future__ import annotations

from tests.world.timeline.history import History, chain, near, short_id
from tests.world.trace import Kind

_COLOURS = {"fault": "33", "process": "36", "invariant": "1;31", "operator": "35", "machine": "34", "message": "32"}
_DIM, _BOLD = "2", "1"
_WIDEST_TEXT = 110


def render_text(history: History, *, steps: int = 30, is_coloured: bool = False) -> str:
    """Returns the timeline: step, virtual time, process, event and cause in columns; `*` marks the causal chain."""
    led = chain(history)
    numbers = {str(event.detail["id"]): event.n for event in history.events if event.kind == Kind.STORED}
    shown = near(history, steps)
    lane_width = max([7, *(len(history.events[place].lane) for place in shown)])
    lines = [f"  {'step':>6} {'time':>10}  {'process':<{lane_width}}  {'event':<21}  what, and the step that caused it"]
    before = -1
    for place in shown:
        if place > before + 1:
            lines.append(_coloured(f"  {'…':>6} {place - before - 1} steps", _DIM, is_coloured))
        before = place
        event = history.events[place]
        cause = numbers.get(event.cause, short_id(event.cause)) if event.cause else ""
        because = f"  ← {cause}" if cause else ""
        text = event.text if len(event.text) <= _WIDEST_TEXT else f"{event.text[: _WIDEST_TEXT - 1]}…"
        mark = "*" if place in led else " "
        line = f"{mark} {event.n:>6} {event.at:>8.3f} s  {event.lane:<{lane_width}}  {event.kind:<21}  {text}{because}"
        colour = _COLOURS.get(event.kind.partition(".")[0], "") if place in led or "message" not in event.kind else ""
        lines.append(_coloured(line, _BOLD if place == history.failed else colour, is_coloured))
    if history.violation is not None:
        failure = f"! {history.violation.at:>15.3f} s  VIOLATED: {history.violation.subject}"
        lines.append(_coloured(failure, _COLOURS["invariant"], is_coloured))
    return "\n".join(lines)


def _coloured(text: str, colour: str, is_coloured: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if is_coloured and colour else text
