"""Which scenes a run shows, from its seconds. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.demo.scene import DemoScene

STOP_SECONDS = 4.0
"""What restoring every file, stopping the servers and printing the table takes of the seconds of a run."""
MOST_ROUNDS = 9
"""Of a scene in a run of limited time: more would tell little more."""


@dataclass(frozen=True, slots=True)
class PlannedScene:
    """A scene of a run with its rounds; `left_out` says why there is no time for it."""

    scene: DemoScene[Any]
    rounds: int
    left_out: str = ""

    @property
    def seconds(self) -> float:
        return self.scene.seconds(self.rounds) if self.rounds else 0.0

    def goes_on(self, taken: int, left: float | None, later: Sequence[PlannedScene]) -> bool:
        """Returns whether a further round begins after those that were taken, with so many seconds left (None: no
        limit). A planned round leaves time to show each later scene; a round more than planned, for all their rounds.
        """
        if left is None:
            return taken < self.rounds
        kept = sum(scene.scene.seconds(1 if taken < self.rounds else scene.rounds) for scene in later if scene.rounds)
        return taken < MOST_ROUNDS and left - kept >= self.scene.round_seconds


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
    while more := [s for s in scenes if 0 < rounds[s.name] < MOST_ROUNDS and s.round_seconds <= left]:
        scene = min(more, key=lambda candidate: rounds[candidate.name])
        rounds[scene.name], left = rounds[scene.name] + 1, left - scene.round_seconds
    why = "it needs {:.0f} s, and SECONDS={} has no time for it"
    return [
        PlannedScene(scene, count, "" if count else why.format(scene.seconds(1), seconds))
        for scene, count in zip(scenes, rounds.values(), strict=True)
    ]
