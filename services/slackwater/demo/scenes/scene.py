"""What a scene is: one situation in turns of two or more variants. A scene is one record `DemoScene` in the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from slackwater.demo.api import Api
from slackwater.demo.kernel import Kernel
from slackwater.demo.narrator import Narrator
from slackwater.demo.scenes.result import Result, SceneReport, judge
from slackwater.demo.workloads import Workloads

_STEP_SECONDS = 0.1


@dataclass(slots=True)
class Stage:
    """What a scene works with: the running stack, its workloads and cgroups, and the terminal."""

    api: Api
    narrator: Narrator
    workloads: Workloads
    kernel: Kernel
    request_cpu: float | None = None
    """CPU seconds of one request of the HTTP service, measured by the first scene that runs it."""


async def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Asks ten times a second; returns whether the condition held within these seconds."""
    for _ in range(int(seconds / _STEP_SECONDS)):
        if holds():
            return True
        await asyncio.sleep(_STEP_SECONDS)
    return False


R = TypeVar("R", bound=Result)


@dataclass(frozen=True, slots=True)
class DemoScene(Generic[R]):
    """A scene. `seconds` and `turns` let a run of limited time choose its scenes before it begins."""

    name: str
    plan: str
    """What it will do, in one line without its name."""
    turns: int
    """Turns of each variant in a full run."""
    seconds: Callable[[int], float]
    """Upper estimate of its duration with so many turns of each variant."""
    result: type[R]
    perform: Callable[[Stage, int], Awaitable[R]]
    """Runs so many turns of each variant, interleaved; leaves no pod and no policy behind."""
    report: Callable[[R], SceneReport]
    picture: Callable[[R], str] | None
    """Draws a result that has turns, as an SVG that stands alone."""
    optional: bool = False
    """Runs only when it is asked for by name."""

    def judged(self, result: R) -> SceneReport:
        """Returns the report, without comparisons where a turn was disturbed."""
        return judge(self.name, self.report(result), result)
