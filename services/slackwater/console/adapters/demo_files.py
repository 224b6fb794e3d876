"""Reads the summary and the pictures that the demo keeps in the state directory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ValidationError

from slackwater.console.domain.demo_run import DemoComparison, DemoRunView, DemoSceneView
from slackwater.model.plurals import counted
from slackwater.runtime.state import DEMO_PICTURES, RUN_SUMMARY


class _Comparison(BaseModel):
    figure: str
    without: str = ""
    with_slackwater: str = ""
    word: str | None = None
    why: str = ""


class _Scene(BaseModel):
    plan: str = ""
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    comparisons: tuple[_Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    left_out: str = ""


class _Machine(BaseModel):
    node: str = ""
    cpus: int = 0
    kernel: str = ""
    cgroups: str = ""


class _Summary(BaseModel):
    """The fields of run-summary.json that are shown; others are ignored."""

    started_at: datetime
    machine: _Machine = _Machine()
    scenes: Mapping[str, _Scene] = {}
    finished: bool = False
    exit: int | None = None


class DemoFiles:
    """Implements slackwater.console.ports.DemoRuns on the demo's own folder, below the folder of its summary."""

    def __init__(self, demo_state_dir: Path) -> None:
        self._summary = demo_state_dir.parent / RUN_SUMMARY
        self._pictures = demo_state_dir / DEMO_PICTURES

    async def last(self) -> DemoRunView | None:
        return await asyncio.to_thread(self._last)

    async def picture(self, scene: str) -> bytes | None:
        return await asyncio.to_thread(self._picture, scene)

    def _last(self) -> DemoRunView | None:
        try:
            found = _Summary.model_validate_json(self._summary.read_bytes())
        except (FileNotFoundError, ValidationError):  # of another version, or no summary of a demo
            return None
        scenes = [self._view(name, scene) for name, scene in found.scenes.items()]
        return DemoRunView(
            started_at=found.started_at,
            node=found.machine.node,
            machine=_machine_text(found.machine),
            scenes=tuple(scenes),
            finished=found.finished,
            exit=found.exit,
        )

    def _view(self, name: str, scene: _Scene) -> DemoSceneView:
        fields = dict(scene) | {
            "comparisons": tuple(DemoComparison(**dict(comparison)) for comparison in scene.comparisons)
        }
        return DemoSceneView(name=name, has_picture=bool(scene.rows) and self._file(name).is_file(), **fields)

    def _picture(self, scene: str) -> bytes | None:
        run = self._last()
        if run is None or not any(one.name == scene and one.has_picture for one in run.scenes):
            return None  # a name of no scene is never a path
        try:
            return self._file(scene).read_bytes()
        except FileNotFoundError:
            return None

    def _file(self, scene: str) -> Path:
        return self._pictures / f"{scene}.svg"


class NoDemo:
    """Implements slackwater.console.ports.DemoRuns where no demo runs beside the console."""

    async def last(self) -> DemoRunView | None:
        return None

    async def picture(self, scene: str) -> bytes | None:
        return None


def _machine_text(machine: _Machine) -> str:
    parts = [
        counted(machine.cpus, "CPU") if machine.cpus else "",
        f"Linux {machine.kernel}" if machine.kernel else "",
        f"cgroups {machine.cgroups}" if machine.cgroups else "",
    ]
    return ", ".join(part for part in parts if part)
