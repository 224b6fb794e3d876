"""The scene lend as a picture: core-seconds that batch won, and prod's p99, in every turn. Pure."""

from __future__ import annotations

from slackwater.demo.scenes.bars import BarPanel, TurnBar, bars
from slackwater.demo.scenes.lend_result import OFFERS, REQUESTS, TITLES, VARIANTS, LendScene, LendTurn
from slackwater.model.quantities import format_cpu

_CSS = {REQUESTS: "weights", OFFERS: "slackwater"}


def picture(scene: LendScene) -> str:
    """Returns the SVG with a bar per turn, grouped by variant; a variant has one colour in both panels."""
    turns = [turn for variant in VARIANTS for turn in scene.of(variant)]
    won = [_bar(turn, turn.batch_core_seconds, _won(scene, turn)) for turn in turns]
    p99s = [
        _bar(turn, turn.p99_ms, "not measured" if turn.p99_ms is None else f"{turn.p99_ms:.1f} ms") for turn in turns
    ]
    seconds = f"{turns[0].seconds:g} s" if turns else "no time"
    heading = f"Prod requests all {format_cpu(scene.cpu_milli)} CPU and uses a part; {scene.waiting} batch pods wait"
    return bars(
        heading,
        [
            BarPanel(f"CPU that batch won in a turn of {seconds}", won, "more is better"),
            BarPanel("prod's response time, 99th percentile", p99s, "should be the same"),
        ],
        heading,
    )


def _bar(turn: LendTurn, value: float | None, words: str) -> TurnBar:
    return TurnBar(TITLES[turn.variant], value, words, _CSS[turn.variant])


def _won(scene: LendScene, turn: LendTurn) -> str:
    return f"{turn.batch_core_seconds:.1f} core-s, {turn.placed} of {scene.waiting} pods"
