"""Which scenes a run shows, from its seconds, and the load of their requests. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.demo.load import percentile

if TYPE_CHECKING:  # scenes read the loads below
    from slackwater.demo.scenes.scene import DemoScene

STOP_SECONDS = 5.0
"""What restoring every file, stopping the servers and printing the table takes of the seconds of a run."""
MOST_TIMES_TURNS = 3
"""A scene that runs alone repeats its turns, up to so many times those of a full run."""
REST_LOAD = 0.05
SURGE_LOAD, _LEAST_SURGE_LOAD = 0.60, 0.30
LEFT_TO_BATCH = 1 / 3
REQUEST_SECONDS = 0.0075
"""Target CPU time of one request. A stall caused by batch lasts about one time slice of 3 ms: short requests show it
clearly in pressure (0.08 at 3 ms, 0.05 at 6 ms, 0.03 at 8 ms next to batch at tier weight, 0.01 to 0.02 alone), long
ones are delayed less in proportion. With 6 ms, one run of five missed its limit on two CPUs."""


@dataclass(frozen=True, slots=True)
class PlannedScene:
    """A scene of a run with its turns of each variant; `skipped` says why there is no time for it."""

    scene: DemoScene[Any]
    turns: int
    skipped: str = ""

    @property
    def seconds(self) -> float:
        return 0.0 if self.skipped else self.scene.seconds(self.turns)


def plan(scenes: Sequence[DemoScene[Any]], seconds: int | None) -> list[PlannedScene]:
    """Returns the scenes that a run of so many seconds shows, each with its turns; None is no limit.

    A scene alone repeats its turns as time allows. Of several the first that fit are shown: with all of their turns,
    else with one of each variant.
    """
    if seconds is None:
        return [PlannedScene(scene, scene.turns) for scene in scenes]
    left, found = seconds - STOP_SECONDS, []
    most = MOST_TIMES_TURNS if len(scenes) == 1 else 1
    for scene in scenes:
        turns = next((n for n in range(most * scene.turns, 0, -1) if scene.seconds(n) <= left), 0)
        needed = f"it needs {scene.seconds(1):.0f} s, and {max(0.0, left):.0f} s are left of SECONDS={seconds}"
        found.append(PlannedScene(scene, turns, "" if turns else needed))
        left -= found[-1].seconds
    return found


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests per second at rest and in the surge."""

    rest: float
    surge: float


def compared(cpus: int, seconds_per_request: float, other_cpus: float, kept_cpus: float, batch_cpus: float) -> Rates:
    """The request rates for the comparison: the surge leaves batch a third of its demand `batch_cpus`.

    `other_cpus` is used by everything else, `kept_cpus` is the target. If a surge needed all of batch's CPU, both
    policies would act alike. Rates are at most those of the phases and at least 30 % of the machine.
    """
    room = kept_cpus - other_cpus - LEFT_TO_BATCH * batch_cpus
    prod = min(SURGE_LOAD * cpus, max(_LEAST_SURGE_LOAD * cpus, room))
    return Rates(rest=REST_LOAD * cpus / seconds_per_request, surge=prod / seconds_per_request)


def waterline(alone: Sequence[float]) -> float:
    """The waterline on prod's CPU pressure, from its one-second samples without batch.

    The lower quartile is the pressure that prod causes itself, even if other work disturbed part of the samples. On a
    quiet virtual machine with two CPUs it is 0.01 to 0.02; next to batch at tier weight single seconds reach 0.03 to
    0.17.
    """
    own = percentile(alone, 0.25) if alone else 0.0
    return round(min(0.10, max(0.02, 1.25 * own + 0.010)), 3)
