"""The scene quotas as a picture: what both teams used over the last round, and its three stages. Pure.

It stands alone (its own colours, light and dark), so that a README and the console can show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slackwater.charts.svg import Frame, Point, Scale, line, number, polygon, rect, text
from slackwater.demo.scenes.quotas_result import (
    ASKED,
    BORROWER,
    ELASTIC,
    FIXED,
    LENDER,
    VARIANTS,
    QuotasScene,
    QuotaStage,
    TeamLevel,
)
from slackwater.model.plurals import counted
from slackwater.model.quantities import format_cpu

WIDTH, HEIGHT = 840.0, 320.0
_WORDS: Final = 185.0
"""Width of the longest words of a stage."""
_HEADINGS: Final = {FIXED: "fixed shares", ELASTIC: "elastic quotas", ASKED: f"{LENDER} asks for its min"}
STYLE: Final = """
 text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
 .title { font-size: 14px; font-weight: 600 }
 .lender { fill: #1f6feb } .borrower { fill: #d4a72c } .borrowed { fill: #e8590c }
 .min { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 3 } .stage { stroke: #8c959f; stroke-dasharray: 2 3 }
 .axis { stroke: #8c959f; stroke-width: 1 } .ground { fill: #ffffff }
 @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
 .lender { fill: #4493f8 } .borrower { fill: #bb8009 } .borrowed { fill: #f0883e } }
"""


def picture(scene: QuotasScene) -> str:
    """Returns the SVG: team-b's use from below, what it borrows above its half, team-a's use on top."""
    frame = Frame(WIDTH, HEIGHT, top=92, bottom=62)
    seconds = max((level.seconds for level in scene.levels), default=1.0)
    x = Scale(0, seconds, frame.x0, frame.x1)
    y = Scale(0, scene.total_milli * 1.08, frame.y0, frame.y1)
    half = scene.total_milli / 2
    label = f"Two teams share {format_cpu(scene.total_milli)} CPU, {format_cpu(int(half))} each as min"
    parts = [
        text(frame.x0, 20, label, "title"),
        *_stages(scene, x, frame),
        *_areas(scene.levels, half, x, y),
        line(frame.x0, y(half), frame.x1, y(half), "min"),
        text(frame.x0 + 5, y(half) - 5, f"min of {BORROWER}", "small"),
        line(frame.x0, frame.y0, frame.x1, frame.y0, "axis"),
        line(frame.x0, frame.y0, frame.x0, frame.y1, "axis"),
        *(text(frame.x0 - 6, y(milli) + 4, format_cpu(int(milli)), "small", "end") for milli in (0, half, 2 * half)),
        text(frame.x0 - 6, frame.y1 - 4, "CPU", "small", "end"),
        text(frame.x0, frame.y0 + 16, "0 s", "small"),
        text(frame.x1, frame.y0 + 16, f"{seconds:.0f} s", "small", "end"),
        *_legend(frame),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" role="img" '
        f'aria-label="{label}"><style>{STYLE}</style>{rect(0, 0, WIDTH, HEIGHT, "ground")}{"".join(parts)}</svg>\n'
    )


def _stages(scene: QuotasScene, x: Scale, frame: Frame) -> list[str]:
    """A heading over each stage with what came of it, and a line where it begins."""
    parts = []
    for variant in VARIANTS:
        begins = [level.seconds for level in scene.levels if level.stage == variant]
        if not begins or not scene.of(variant):
            continue
        left = x(begins[0]) + 4
        place, anchor = (left, "start") if frame.x1 - left > _WORDS else (frame.x1, "end")
        first, second = _outcome(scene.of(variant)[-1])
        parts += [
            line(left - 4, 34, left - 4, frame.y0, "stage"),
            text(place, 46, _HEADINGS[variant], "", anchor),
            text(place, 62, first, "small", anchor),
            text(place, 77, second, "small", anchor),
        ]
    return parts


def _outcome(stage: QuotaStage) -> tuple[str, str]:
    if stage.variant == FIXED:
        return f"{BORROWER}: {stage.borrower_running} run, {stage.borrower_waiting} wait", f"{LENDER} idle"
    if stage.variant == ELASTIC:
        borrowed = format_cpu(stage.borrowed_milli)
        return f"{BORROWER}: {stage.borrower_running} run", f"borrows {borrowed} CPU of {LENDER}"
    waited = "" if stage.waited_seconds is None else f" after {stage.waited_seconds:.1f} s"
    ended = counted(stage.ended("checkpoint"), "job")
    return f"{stage.lender_running} run{waited}", f"{ended} of {BORROWER}: checkpoint"


def _areas(levels: Sequence[TeamLevel], half: float, x: Scale, y: Scale) -> list[str]:
    """Steps, because a ledger jumps."""
    bottom: list[float] = [0.0] * len(levels)
    found = []
    for css, amounts in (
        ("borrower", [min(level.borrower_milli, half) for level in levels]),
        ("borrowed", [max(level.borrower_milli - half, 0) for level in levels]),
        ("lender", [float(level.lender_milli) for level in levels]),
    ):
        top = [low + amount for low, amount in zip(bottom, amounts, strict=True)]
        outline = [*_steps(levels, top, x, y), *reversed(_steps(levels, bottom, x, y))]
        found.append(polygon(outline, css))
        bottom = top
    return found


def _steps(levels: Sequence[TeamLevel], values: Sequence[float], x: Scale, y: Scale) -> list[Point]:
    points: list[Point] = []
    for level, value in zip(levels, values, strict=True):
        if points:
            points.append((x(level.seconds), points[-1][1]))
        points.append((x(level.seconds), y(value)))
    return points


def _legend(frame: Frame) -> list[str]:
    y = frame.height - 14
    entries = (
        (0.0, "borrower", f"used by {BORROWER} within its min"),
        (210.0, "borrowed", f"borrowed by {BORROWER}"),
        (360.0, "lender", f"used by {LENDER}"),
    )
    return [
        rect(frame.x0 + at, y - 9, 10, 10, css) + text(frame.x0 + at + 15, y, said, "small")
        for at, css, said in entries
    ]
