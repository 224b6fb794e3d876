"""The scene cpu as a picture: prod's p99 and batch's CPU of every turn. Pure."""

from __future__ import annotations

from slackwater.demo.scenes.bars import BarPanel, TurnBar, bars
from slackwater.demo.scenes.cpu_result import TITLES, VARIANTS, CpuScene


def picture(scene: CpuScene) -> str:
    """Returns the SVG with a bar per turn, grouped by variant."""
    turns = [turn for variant in VARIANTS for turn in scene.of(variant)]
    p99s = [
        TurnBar(TITLES[turn.variant], phase.p99_ms, f"{phase.p99_ms or 0:.1f} ms", turn.variant)
        for turn in turns
        for phase in (turn.phase,)
    ]
    cpus = [
        TurnBar(TITLES[turn.variant], turn.phase.batch_cpu, f"{turn.phase.batch_cpu:.2f} CPU", "batch")
        for turn in turns
    ]
    return bars(
        "prod's p99 and batch's CPU in every turn of the same surge",
        [BarPanel("prod's p99 in every turn", p99s), BarPanel("batch's CPU in every turn", cpus)],
    )
