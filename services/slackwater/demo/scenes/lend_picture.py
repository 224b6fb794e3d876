"""The scene lend as a picture: core-seconds that batch won, and prod's p99, in every turn. Pure."""

from __future__ import annotations

from slackwater.demo.scenes.bars import BarPanel, TurnBar, bars
from slackwater.demo.scenes.lend_result import OFFERS, TITLES, VARIANTS, LendScene, LendTurn


def picture(scene: LendScene) -> str:
    """Returns the SVG with a bar per turn, grouped by variant."""
    turns = [turn for variant in VARIANTS for turn in scene.of(variant)]
    won = [TurnBar(TITLES[turn.variant], turn.batch_core_seconds, _won(turn), "batch") for turn in turns]
    p99s = [
        TurnBar(
            TITLES[turn.variant],
            turn.p99_ms,
            f"{turn.p99_ms or 0:.1f} ms",
            "slackwater" if turn.variant == OFFERS else "weights",
        )
        for turn in turns
    ]
    return bars(
        "Core-seconds that batch won on a fully requested machine, and prod's p99, in every turn",
        [BarPanel("core-seconds of batch on a fully requested machine", won), BarPanel("prod's p99", p99s)],
    )


def _won(turn: LendTurn) -> str:
    return f"{turn.batch_core_seconds:.1f} core-s"
