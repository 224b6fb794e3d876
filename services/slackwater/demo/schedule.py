"""Which scenes a run shows, from its seconds. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.demo.scene import DemoScene

STOP_SECONDS = 5.0
"""What restoring every file, stopping the servers and printing the table takes of the seconds of a run."""
MOST_ROUNDS = 9
"""Of a scene that runs alone: more would tell little more."""


@dataclass(frozen=True, slots=True)
class PlannedScene:
    """A scene of a run with its rounds; `left_out` says why there is no time for it."""

    scene: DemoScene[Any]
    rounds: int
    left_out: str = ""

    @property
    def seconds(self) -> float:
        return self.scene.seconds(self.rounds) if self.rounds else 0.0


def plan(scenes: Sequence[DemoScene[Any]], seconds: int | None) -> list[PlannedScene]:
    """Returns the scenes with the rounds of each that fit into so many seconds; None is no limit.

    One round of each scene comes first, in their order; time that is left gives further rounds, to the scene with the
    fewest first.
    """
    if seconds is None:
        return [PlannedScene(scene, scene.rounds) for scene in scenes]
    left = seconds - STOP_SECONDS
    rounds = dict.fromkeys((scene.name for scene in scenes), 0)
    for scene in scenes:
        if scene.seconds(1) <= left:
            rounds[scene.name], left = 1, left - scene.seconds(1)
    shown = [scene for scene in scenes if rounds[scene.name]]
    most = MOST_ROUNDS if len(scenes) == 1 else 0
    while more := [s for s in shown if rounds[s.name] < max(most, s.rounds) and s.round_seconds <= left]:
        scene = min(more, key=lambda candidate: rounds[candidate.name])
        rounds[scene.name], left = rounds[scene.name] + 1, left - scene.round_seconds
    return [
        PlannedScene(scene, count)
        if (count := rounds[scene.name])
        else PlannedScene(scene, 0, f"it needs {scene.seconds(1):.0f} s, and SECONDS={seconds} has no time for it")
        for scene in scenes
    ]


def rounds_in(scene: DemoScene[Any], rounds: int, left: float) -> int:
    """Returns how many of the planned rounds the time that is really left allows."""
    return next((count for count in range(rounds, 0, -1) if scene.seconds(count) <= left), 0)
