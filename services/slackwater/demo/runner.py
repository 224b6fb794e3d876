"""The one runner of all scenes: interleaves their turns, applies and puts back policies, measures other work.

A turn that is awaited in vain ends its scene. That is a failure on a quiet machine; where other processes took the CPU,
the scene is left out with that reason. A run that is late leaves later rounds and scenes out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from slackwater.demo.api import NODEQOS
from slackwater.demo.machine.other_work import measured
from slackwater.demo.report import Turn, report
from slackwater.demo.scene import DemoScene, Document, SceneVariant
from slackwater.demo.schedule import PlannedScene
from slackwater.demo.stage import Stage
from slackwater.demo.summary import SceneSummary
from slackwater.demo.verdict import BrokenPromise
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.plurals import counted


@dataclass(slots=True)
class SceneRun:
    """Runs one scene. `deadline` (monotonic seconds) is the end of the run; None is no limit. With overtime, it may end
    so much later: a run shows one scene, however busy the machine is. `later` are the scenes that follow."""

    stage: Stage
    planned: PlannedScene
    deadline: float | None = None
    overtime_seconds: float = 0.0
    later: Sequence[PlannedScene] = ()
    turns: list[Turn[Any]] = field(default_factory=list)
    is_broken: bool = False
    """A promise was broken outside of the turns."""

    @property
    def scene(self) -> DemoScene[Any]:
        return self.planned.scene

    async def perform(self) -> tuple[SceneSummary, list[Turn[Any]]]:
        """Run the scene as far as the time allows; returns its summary and turns."""
        began = time.monotonic()
        entry = SceneSummary(plan=self.scene.plan)
        needed, left = self.scene.seconds(1), self._left()
        why = self.stage.lacks(self.scene.memory_mib, self.scene.disk_mib)
        if not why and left is not None and left + self.overtime_seconds < needed:
            why = f"the run is late: it needs {needed:.0f} s, {max(0.0, left):.0f} s are left"
        if why:
            return entry.model_copy(update={"left_out": why}), []
        with measured() as other:
            left_out, failure = await self._rounds()
        if failure and not self.is_broken and (why := other.found.disturbance(self.stage.cpus)):
            left_out, failure = f"{failure}, while {why}", ""
        entry = report(self.scene, self.turns, self.stage.cpus)
        failures = (*entry.failures, f"{self.scene.name}: {failure}") if failure else entry.failures
        update = {"took_seconds": round(time.monotonic() - began, 1), "left_out": left_out, "failures": failures}
        return entry.model_copy(update=update), self.turns

    def _left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    async def _rounds(self) -> tuple[str, str]:
        """Take the turns; returns why the scene is not shown, and what failed, each empty if nothing did."""
        left = self._left()
        limit = asyncio.timeout(None if left is None else left + self.overtime_seconds)
        try:
            async with limit, self._policies() as present, self.scene.opened(self.stage) as run_turn:
                number = 0
                while not number or self.planned.goes_on(number, self._left(), self.later):
                    for variant in self.scene.order(number):
                        began = time.monotonic()
                        await self._apply(variant, present)
                        self.stage.narrator.doing(f"{self.scene.name}, {variant.title}")
                        with measured() as other:
                            record = await run_turn(variant.name)
                        seconds = round(time.monotonic() - began, 1)
                        self.turns.append(Turn(variant.name, record, other.found, seconds))
                    number += 1
        except TimeoutError:
            if not limit.expired():
                raise
            taken = {turn.variant for turn in self.turns}
            if not {name for name in self.scene.compared if name} <= taken:
                return f"it was late and not over at the end of the run, after {counted(len(self.turns), 'turn')}", ""
        except Misconfigured as error:
            return error.message, ""
        except Unavailable as error:
            return "", error.message
        except BrokenPromise as error:
            self.is_broken = True
            return "", error.message
        return "", ""

    @asynccontextmanager
    async def _policies(self) -> AsyncIterator[Mapping[str, Any]]:
        """The NodeQOS spec in force; afterwards every document that a variant wrote is as it was before."""
        api = self.stage.api
        names = {(kind, name): None for variant in self.scene.variants for kind, name, _ in variant.documents}
        if any(variant.nodeqos for variant in self.scene.variants):
            names[NODEQOS] = None
        before = {key: await api.document(*key) for key in names}
        try:
            yield (before.get(NODEQOS) or {"spec": {}})["spec"]
        finally:
            for (kind, name), document in before.items():
                await api.put_back(kind, name, document)

    async def _apply(self, variant: SceneVariant, present: Mapping[str, Any]) -> None:
        documents: list[Document] = list(variant.documents)
        if present:
            documents.append((*NODEQOS, {**present, **variant.nodeqos}))
        for kind, name, spec in documents:
            await self.stage.api.put(kind, name, spec)
