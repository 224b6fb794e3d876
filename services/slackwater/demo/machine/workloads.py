"""Starts the demo's programs through `slackwater exec`; they are terminated when this process exits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.demo.programs.load import Sample, read_samples
from slackwater.model.errors import Misconfigured, Unavailable

_START_SECONDS = 40.0
_STOP_SECONDS = 5.0
PROD_WORKLOAD, BATCH_WORKLOAD = "quotes", "crunch"


def program(name: str, *arguments: str) -> tuple[str, ...]:
    """Returns the command of one of the demo's programs."""
    return (sys.executable, "-m", f"slackwater.demo.programs.{name}", *arguments)


@dataclass(slots=True)
class Workloads:
    """The processes of one run. `folder` contains their output: the service's port, progress, latencies."""

    state_dir: Path
    cpus: int
    started: list[Process] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the programs write."""
        folder = self.state_dir / "scenes"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def service(
        self, request_seconds: float, request_milli: int, workload: str = PROD_WORKLOAD
    ) -> tuple[int, Process]:
        """Start the prod service with this CPU request; return its port and process.

        Raises Unavailable if it does not start.
        """
        announced = self.folder / "service.json"
        announced.unlink(missing_ok=True)
        flags = ("--request-ms", f"{request_seconds * 1000:g}", "--announce", str(announced))
        command = program("service", "--workers", str(self.cpus), *flags)
        process = await self.pod("prod", workload, request_milli, "256Mi", *command)
        for _ in range(int(_START_SECONDS / 0.05)):
            if announced.exists():
                return int(json.loads(announced.read_text())["port"]), process
            if process.returncode is not None:
                raise Unavailable(f"the demo service exited with {process.returncode} before it was ready")
            await asyncio.sleep(0.05)
        raise Unavailable(f"the demo service was not ready after {_START_SECONDS:g} s")

    async def batch(self) -> Process:
        """Start the batch job: two CPU-bound processes per CPU, in one pod."""
        command = program("batch", "--processes", str(2 * self.cpus))
        flags = ("--cpu-period-ms", "1000")  # its variants share CPU by weights (decision 0010)
        return await self.pod("batch", BATCH_WORKLOAD, 250 * self.cpus, "256Mi", *command, flags=flags)

    async def pod(
        self, tier: str, workload: str, cpu_milli: int, memory: str, *command: str, flags: Sequence[str] = ()
    ) -> Process:
        """Start any command as a pod of a tier; `flags` are further ones of `exec`."""
        flags = ("--tier", tier, "--workload", workload, "--name", workload, "--cpu", f"{cpu_milli}m", *flags)
        state = ("--state-dir", str(self.state_dir))
        return await self._start("slackwater.cli", "exec", *flags, "--memory", memory, *state, "--", *command)

    async def from_file(self, file: Path, state_dir: Path) -> Process:
        """Start what a workload file describes, beside the agent with this state directory."""
        return await self._start("slackwater.cli", "exec", "--from", str(file), "--state-dir", str(state_dir))

    async def load(self, port: int, schedule: str, start: float, name: str, patience_seconds: float = 5.0) -> Load:
        """Start the load generator, which writes its measurements to a file. Later answers count as failed."""
        out = self.folder / f"latencies-{name}.txt"
        out.unlink(missing_ok=True)
        arguments = ("--port", str(port), "--schedule", schedule, "--start", repr(start), "--out", str(out),
                     "--patience", f"{patience_seconds:g}")  # fmt: skip
        return Load(await self._start("slackwater.demo.programs.load", *arguments), out)

    async def stop(self, process: Process) -> None:
        """Stop the process: SIGTERM, then SIGKILL after a timeout."""
        if process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def stop_all(self) -> None:
        """Stop all running processes concurrently."""
        await asyncio.gather(*(self.stop(process) for process in self.started))

    async def _start(self, module: str, *arguments: str) -> Process:
        try:
            with (self.folder / "programs.log").open("ab") as log:  # what they say is no line of the run
                process = await asyncio.create_subprocess_exec(
                    *program("die_with_parent", sys.executable, "-m", module, *arguments),
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=log,
                    env=os.environ | {"SLACKWATER_STATE_DIR": str(self.state_dir)},
                    start_new_session=True,  # Ctrl-C goes to this process, which stops them in order
                )
        except OSError as error:
            raise Misconfigured(f"{module} cannot be started: {error}") from error
        self.started.append(process)
        return process


@dataclass(frozen=True, slots=True)
class Load:
    """A running load generator."""

    process: Process
    out: Path

    def samples(self, stretch: str) -> list[Sample]:
        """The measurements so far in one stretch of the schedule."""
        if not self.out.exists():
            return []
        return [sample for sample in read_samples(self.out) if sample.stretch == stretch]
