"""Agents of this machine as processes of their own, each with its own node name, state directory and cgroup root."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.processes import members_of, send
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.workloads import spawn
from slackwater.demo.stage import holds_within
from slackwater.runtime.state import VARIABLE, StateDir

_LOG, _POD_END_SECONDS, _END_SECONDS = "agent.log", 5.0, 30.0


@dataclass(slots=True)
class LocalAgent:
    """One node of this machine."""

    node: str
    state_dir: Path
    nats_url: str
    pool: str
    workloads_dir: Path
    process: Process | None = None

    @property
    def instance(self) -> str:
        """Names its cgroups."""
        return StateDir(self.state_dir).instance_id()

    async def start(self) -> None:
        """Begin to report, with the workload files of its folder."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        settings = {
            VARIABLE: str(self.state_dir),
            "SLACKWATER_AGENT_POOL": self.pool,
            "SLACKWATER_AGENT_WORKLOADS_DIR": str(self.workloads_dir),
            "SLACKWATER_AGENT_REPORT_SECONDS": "1",
            "SLACKWATER_AGENT_LEAVE_ON_STOP": "true",
            "SLACKWATER_LOG_LEVEL": "warning",
        }
        flags = ("--nats", self.nats_url, "--node", self.node, "--state-dir", str(self.state_dir))
        command = (sys.executable, "-m", "slackwater.cli", "agent", *flags)
        self.process = await spawn(*command, log=self.state_dir / _LOG, settings=settings)

    def last_words(self) -> str:
        """Returns the last line of its log."""
        with suppress(OSError, IndexError):
            return (self.state_dir / _LOG).read_text(errors="replace").splitlines()[-1]
        return ""

    async def stop(self) -> None:
        """End its pods, and then the agent, which restores what it changed."""
        kernel = Kernel.of(self.state_dir)
        places = kernel.hierarchy.directories(kernel.root)
        for number in (signal.SIGTERM, signal.SIGKILL):
            send(places, number)
            if await holds_within(lambda: not members_of(places), _POD_END_SECONDS):
                break
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()


@asynccontextmanager
async def running(agents: Sequence[LocalAgent]) -> AsyncIterator[None]:
    """These agents report during the block; their pods end with it."""
    try:
        for agent in agents:
            await agent.start()
        yield
    finally:
        await asyncio.gather(*(agent.stop() for agent in agents))
