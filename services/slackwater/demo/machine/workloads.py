"""Starts the demo's programs through `slackwater exec`; they are terminated when this process exits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

from slackwater.demo.programs.load import Sample, Stretch, read_samples
from slackwater.model.errors import Misconfigured
from slackwater.runtime.state import VARIABLE

_STOP_SECONDS = 30.0


def program(name: str, **arguments: object) -> tuple[str, ...]:
    """Returns the command of one of the demo's programs."""
    return (sys.executable, "-m", "slackwater.demo.programs", name, json.dumps(arguments, default=str))


async def spawn(*command: str, log: Path | None = None, settings: Mapping[str, str] | None = None) -> Process:
    """Start a command that ends with this process; what it says is no line of the run and goes to a file.

    Ctrl-C does not reach it: it is stopped in order. Raises Misconfigured where it cannot be started.
    """
    try:
        with (log or Path(os.devnull)).open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "slackwater.demo.programs.die_with_parent", *command),
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | (settings or {}),
                start_new_session=True,
            )
    except OSError as error:
        raise Misconfigured(f"{command[-1]} cannot be started: {error}") from error


@dataclass(slots=True)
class Workloads:
    """The processes of one run. `folder` contains what they write."""

    state_dir: Path
    cpus: int
    started: list[Process] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the programs write."""
        folder = self.state_dir / "scenes"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def pod(
        self, tier: str, workload: str, cpu_milli: int, memory: str, *command: str, flags: Sequence[str] = ()
    ) -> Process:
        """Start any command as a pod of a tier; `flags` are further ones of `exec`."""
        flags = ("--tier", tier, "--workload", workload, "--name", workload, "--cpu", f"{cpu_milli}m", *flags)
        return await self._exec(self.state_dir, *flags, "--memory", memory, "--", *command)

    async def from_file(self, file: Path, state_dir: Path) -> Process:
        """Start what a workload file describes, beside the agent with this state directory."""
        return await self._exec(state_dir, "--from", str(file))

    async def load(
        self, port: int, schedule: Sequence[Stretch], start: float, name: str, patience_seconds: float = 5.0
    ) -> Load:
        """Start the load generator, which writes its measurements to a file. Later answers count as failed."""
        out = self.folder / f"latencies-{name}.txt"
        out.unlink(missing_ok=True)
        stretches = [astuple(stretch) for stretch in schedule]
        command = program("load", port=port, schedule=stretches, start=start, patience=patience_seconds, out=out)
        return Load(await self._start(*command), out)

    async def stop(self, process: Process) -> None:
        """Stop the process: SIGTERM, then SIGKILL after a timeout."""
        if process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def stop_all(self) -> None:
        """Stop all running processes concurrently."""
        await asyncio.gather(*(self.stop(process) for process in self.started))

    async def _exec(self, state_dir: Path, *arguments: str) -> Process:
        state = ("--state-dir", str(state_dir))
        return await self._start(sys.executable, "-m", "slackwater.cli", "exec", *state, *arguments)

    async def _start(self, *command: str) -> Process:
        settings = {VARIABLE: str(self.state_dir)}
        process = await spawn(*command, log=self.folder / "programs.log", settings=settings)
        self.started.append(process)
        return process


@dataclass(frozen=True, slots=True)
class Load:
    """A running load generator."""

    process: Process
    out: Path

    def samples(self, stretch: str) -> list[Sample]:
        """The measurements so far in one stretch of the schedule."""
        return [sample for sample in read_samples(self.out) if sample.stretch == stretch]
