"""The cache scene as a picture: the p99 of prod's reads over time per variant, and the limit of batch. Pure.

It stands alone (its own colours, light and dark), so that a README and the console can show it.
"""

from __future__ import annotations

import math
from typing import Final

from slackwater.charts.svg import Frame, Scale, line, number, polyline, rect, text
from slackwater.demo.scenes.cache_result import SLACKWATER, TITLES, VARIANTS, CacheScene, CacheTurn

WIDTH, HEIGHT = 840.0, 430.0
_P99_TOP, _P99_BOTTOM, _LIMIT_TOP, _LIMIT_BOTTOM = 80.0, 280.0, 320.0, 380.0
STYLE: Final = """
 text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
 .title { font-size: 14px; font-weight: 600 }
 polyline { fill: none; stroke-width: 2 } .alone { stroke: #8c959f; stroke-dasharray: 3 3 } .plain { stroke: #cf222e }
 .slackwater { stroke: #1a7f37 } .limit { stroke: #9a6700 } .since { stroke: #9a6700; stroke-dasharray: 2 3 }
 .axis { stroke: #8c959f; stroke-width: 1 }
 .grid { stroke: #d0d7de; stroke-width: 1 } .ground { fill: #ffffff }
 @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
 .grid { stroke: #30363d } .plain { stroke: #ff7b72 } .slackwater { stroke: #56d364 }
 .limit, .since { stroke: #d29922 } }
"""


def picture(scene: CacheScene) -> str:
    """Returns the SVG of the last turn of each variant, on one scale of time."""
    turns = [scene.of(variant)[-1] for variant in VARIANTS if scene.of(variant)]
    frame = Frame(WIDTH, HEIGHT)
    seconds = max((one.seconds for turn in turns for one in turn.moments), default=1.0)
    x = Scale(0, seconds, frame.x0, frame.x1)
    label = f"Batch pushes prod's {scene.prod_mib} MiB out of the page cache of a parent of {scene.limit_mib:,} MiB"
    parts = [
        text(frame.x0, 20, label, "title"),
        text(frame.x0, 48, "response time of prod's reads, 99th percentile, ms (logarithmic): less is better", ""),
        *_p99s(turns, x, frame),
        text(frame.x0, _LIMIT_TOP - 10, "memory limit of batch under Slackwater, MiB", ""),
        *_limits([turn for turn in turns if turn.variant == SLACKWATER], x, frame),
        text(frame.x0, HEIGHT - 32, "0 s", "small"),
        text(frame.x1, HEIGHT - 32, f"{seconds:.0f} s", "small", "end"),
        *_legend(turns, frame),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" role="img" '
        f'aria-label="{label}"><style>{STYLE}</style>{rect(0, 0, WIDTH, HEIGHT, "ground")}{"".join(parts)}</svg>\n'
    )


def _p99s(turns: list[CacheTurn], x: Scale, frame: Frame) -> list[str]:
    known = [one.p99_ms for turn in turns for one in turn.moments if one.p99_ms]
    low, high = math.floor(math.log10(min(known, default=0.1))), math.ceil(math.log10(max(known, default=10.0)))
    y = Scale(low, max(high, low + 1), _P99_BOTTOM, _P99_TOP)
    marks = []
    for power in range(low, max(high, low + 1) + 1):
        marks.append(line(frame.x0, y(power), frame.x1, y(power), "grid"))
        marks.append(text(frame.x0 - 6, y(power) + 4, f"{10.0**power:g}", "small", "end"))
    curves = [
        polyline([(x(one.seconds), y(math.log10(one.p99_ms))) for one in turn.moments if one.p99_ms], turn.variant)
        for turn in turns
    ]
    return [*marks, line(frame.x0, _P99_BOTTOM, frame.x1, _P99_BOTTOM, "axis"), *curves]


def _limits(turns: list[CacheTurn], x: Scale, frame: Frame) -> list[str]:
    """Steps: a limit holds until the next one. Nothing is drawn while there is none."""
    limited = [one for turn in turns for one in turn.moments if one.limit_mib is not None]
    most = max((one.limit_mib or 0 for one in limited), default=0)
    y = Scale(0, max(most, 1), _LIMIT_BOTTOM, _LIMIT_TOP)
    steps: list[tuple[float, float]] = []
    for one in limited:
        at, level = x(one.seconds), y(one.limit_mib or 0)
        steps += [(at, steps[-1][1]), (at, level)] if steps else [(at, level)]
    axis = [
        line(frame.x0, _LIMIT_BOTTOM, frame.x1, _LIMIT_BOTTOM, "axis"),
        text(frame.x0 - 6, _LIMIT_BOTTOM + 4, "0", "small", "end"),
    ]
    if not limited:
        return [*axis, text(frame.x0 + 8, _LIMIT_BOTTOM - 8, "none was set", "small")]
    last, since = limited[-1], x(limited[0].seconds)
    return [
        *axis,
        line(since, _P99_TOP, since, _P99_BOTTOM, "since"),
        text(
            since,
            _P99_TOP - 6,
            "Slackwater limits the memory of batch",
            "small",
            *(("end",) if since > WIDTH / 2 else ()),
        ),
        text(frame.x0 - 6, y(most) + 4, str(most), "small", "end"),
        polyline(steps, "limit"),
        text(x(last.seconds), y(last.limit_mib or 0) - 5, f"{last.limit_mib} MiB", "small", "end"),
    ]


def _legend(turns: list[CacheTurn], frame: Frame) -> list[str]:
    y, parts = HEIGHT - 12, []
    for place, turn in enumerate(turns):
        at = frame.x0 + place * 190
        parts.append(polyline([(at, y - 4), (at + 18, y - 4)], turn.variant))
        parts.append(text(at + 24, y, TITLES[turn.variant], "small"))
    return parts
