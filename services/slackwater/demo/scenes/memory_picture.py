"""The memory scene as a picture: what prod and batch held, without Slackwater and with it. Pure.

It stands alone (its own colours, light and dark), so that a README and the console can show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slackwater.charts.svg import Frame, Point, Scale, line, number, polygon, rect, text
from slackwater.demo.scenes.memory_result import PLAIN, SLACKWATER, MemoryScene, MemoryTurn
from slackwater.model.plurals import counted

WIDTH, HEIGHT, GAP = 840.0, 330.0, 20.0
_TOP: Final = 80.0
STYLE: Final = """
 text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
 .title { font-size: 14px; font-weight: 600 }
 .prod { fill: #1f6feb } .batch { fill: #d4a72c } .limit { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 3 }
 .axis { stroke: #8c959f; stroke-width: 1 } .ground { fill: #ffffff } .bad { fill: #cf222e; font-weight: 600 }
 .good { fill: #1a7f37; font-weight: 600 }
 @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
 .prod { fill: #4493f8 } .batch { fill: #bb8009 } .bad { fill: #ff7b72 } .good { fill: #56d364 } }
"""


def picture(scene: MemoryScene) -> str:
    """Returns the SVG of the last turn of each variant, side by side on one scale."""
    half = (WIDTH - GAP) / 2
    seconds = max((at for turn in scene.turns for at, _, _ in turn.levels), default=1.0)
    frame = Frame(half, HEIGHT, top=_TOP, bottom=52)
    panels = [
        _panel(scene, name, scene.of(variant)[-1:], frame, seconds, place * (half + GAP))
        for place, (variant, name) in enumerate(((PLAIN, "without Slackwater"), (SLACKWATER, "with Slackwater")))
    ]
    label = f"Memory of prod and batch in a parent cgroup of {scene.limit_mib:,} MiB: prod grows beside batch pods"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" role="img" '
        f'aria-label="{label}"><style>{STYLE}</style>{rect(0, 0, WIDTH, HEIGHT, "ground")}'
        f"{text(frame.x0, 20, label, 'title')}{''.join(panels)}</svg>\n"
    )


def _panel(
    scene: MemoryScene, name: str, turns: Sequence[MemoryTurn], frame: Frame, seconds: float, left: float
) -> str:
    x = Scale(0, seconds, frame.x0, frame.x1)
    y = Scale(0, scene.limit_mib * 1.1, frame.y0, frame.y1)
    limit = y(scene.limit_mib)
    parts = [
        text(frame.x0, 46, name, ""),
        *(_areas(turn, x, y) for turn in turns),
        line(frame.x0, limit, frame.x1, limit, "limit"),
        text(frame.x1, limit - 5, f"limit of the parent, {scene.limit_mib:,} MiB", "small", "end"),
        line(frame.x0, frame.y0, frame.x1, frame.y0, "axis"),
        line(frame.x0, frame.y0, frame.x0, frame.y1, "axis"),
        *(text(frame.x0 - 6, y(mib) + 4, f"{mib:,}", "small", "end") for mib in (0, 500, 1000)),
        text(frame.x0 - 6, frame.y1 + 4, "MiB", "small", "end"),
        text(frame.x0, frame.y0 + 16, "0 s", "small"),
        text(frame.x1, frame.y0 + 16, f"{seconds:.0f} s", "small", "end"),
        *_legend(frame),
        *(_outcome(turn, frame) for turn in turns),
        *(_end(turn, x, y) for turn in turns),
    ]
    return f'<g transform="translate({number(left)} 0)">{"".join(parts)}</g>'


def _areas(turn: MemoryTurn, x: Scale, y: Scale) -> str:
    """Batch at the bottom, prod on it."""
    ground: list[Point] = [(x(at), y(0)) for at, _, _ in turn.levels]
    batch: list[Point] = [(x(at), y(held)) for at, _, held in turn.levels]
    whole: list[Point] = [(x(at), y(held + prod)) for at, prod, held in turn.levels]
    return polygon([*ground, *reversed(batch)], "batch") + polygon([*batch, *reversed(whole)], "prod")


def _legend(frame: Frame) -> list[str]:
    y = frame.height - 12
    entries = ((0.0, "prod", "held by prod"), (100.0, "batch", "held by batch pods"))
    return [
        rect(frame.x0 + at, y - 9, 10, 10, css) + text(frame.x0 + at + 15, y, said, "small")
        for at, css, said in entries
    ]


def _outcome(turn: MemoryTurn, frame: Frame) -> str:
    said, css = _outcome_text(turn)
    return text(frame.x0, 65, said, css)


def _outcome_text(turn: MemoryTurn) -> tuple[str, str]:
    if not turn.prod_finished:
        return f"the kernel killed prod at {turn.prod_mib:,} MiB", "bad"
    if killed := turn.ended("killed"):
        return f"prod finished; the kernel killed {counted(killed, 'batch pod')}", "bad"
    if kept := turn.ended("checkpoint"):
        return f"prod finished; {counted(kept, 'batch pod')} evicted with grace", "good"
    return "prod finished beside all batch pods", "good"


def _end(turn: MemoryTurn, x: Scale, y: Scale) -> str:
    """A label where prod's curve breaks off."""
    if turn.prod_finished or not turn.levels:
        return ""
    at, prod, held = turn.levels[-1]
    return text(x(at) + 6, y(prod / 2 + held) + 4, "killed", "bad")
