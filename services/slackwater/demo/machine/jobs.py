"""A batch job of the scenes memory and quotas: it holds memory, and keeps its progress when it has to end."""

from __future__ import annotations

import json
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slackwater.demo.machine.workloads import program
from slackwater.demo.stage import Stage

Ending = Literal["running", "checkpoint", "killed"]
Start = Callable[[str, Sequence[str]], Awaitable[Process]]
"""Starts a command under a name."""


@dataclass(frozen=True, slots=True)
class Job:
    """One started program and the files that it writes."""

    name: str
    process: Process
    out: Path
    checkpoint: Path

    @property
    def state(self) -> dict[str, Any]:
        """What it holds, see slackwater.demo.programs.growth; `done` is false before it began."""
        with suppress(FileNotFoundError, ValueError):
            return dict(json.loads(self.out.read_text()))
        return {"mib": 0, "slowest_ms": 0.0, "done": False}

    @property
    def held_mib(self) -> int:
        return int(self.state["mib"]) if self.process.returncode is None else 0

    @property
    def has_begun(self) -> bool:
        return self.process.returncode is None and self.out.exists()

    def ending(self) -> Ending:
        """How it stands; one that has not begun counts as running."""
        if self.process.returncode is None:
            return "running"
        return "checkpoint" if self.checkpoint.exists() else "killed"


async def start_job(stage: Stage, start: Start, name: str, mib: tuple[int, int] = (1, 1), pace: float = 1.0) -> Job:
    """Start a job that takes the first MiB at once and grows to the second, so many per second."""
    out, checkpoint = stage.file(f"{name}.json"), stage.file(f"{name}.checkpoint")
    command = program("growth", start=mib[0], end=mib[1], per_second=pace, out=out, checkpoint=checkpoint)
    return Job(name, await start(name, command), out, checkpoint)
