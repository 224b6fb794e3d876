"""Real cgroups of this machine, one instance per test, with proof that nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
from tests.support.bus import MemoryBus

from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.processes import kill_all
from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.pods import Pod
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.runtime.state import StateDir

T = TypeVar("T")
P = TypeVar("P", bound=Payload)
REPOSITORY = Path(__file__).resolve().parents[3]
NODE = "here"
PATIENCE = float(os.environ.get("SLACKWATER_TEST_PATIENCE", "1"))
"""Factor of the bounds; an emulated machine (`make cgroup2`) is many times slower."""


async def until(look: Callable[[], T], seconds: float = 60.0) -> T:
    """Wait for something true; the time only bounds a failure."""
    deadline = asyncio.get_running_loop().time() + seconds * PATIENCE
    while not (found := look()):
        assert asyncio.get_running_loop().time() < deadline, "it never became true"
        await asyncio.sleep(0.02)
    return found


def no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} needs no database")


@dataclass
class Machine:
    """This machine with one instance of Slackwater on it."""

    state_dir: Path
    hierarchy: Hierarchy
    bus: MemoryBus = field(default_factory=MemoryBus)
    commands: list[subprocess.Popen[bytes]] = field(default_factory=list)
    generation: int = 0

    @property
    def instance(self) -> str:
        return StateDir(self.state_dir).instance_id()

    @property
    def environment(self) -> dict[str, str]:
        paths = f"{REPOSITORY / 'services'}:{REPOSITORY / 'libs'}"
        return {**os.environ, "PYTHONPATH": paths, "SLACKWATER_STATE_DIR": str(self.state_dir)}

    def directories(self) -> list[Path]:
        """Every directory of this instance that is left in any tree."""
        return [path for tree in self.hierarchy.trees() for path in tree.glob(f"slackwater-{self.instance}")]

    def execute(
        self, *command: str, tier: str = "batch", flags: tuple[str, ...] = (), piped: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start `slackwater exec`."""
        line = [sys.executable, "-m", "slackwater.cli", "exec", "--tier", tier, "--workload", "job", *flags, "--"]
        out = subprocess.PIPE if piped else None
        process = subprocess.Popen([*line, *command], env=self.environment, cwd=REPOSITORY, stdout=out)
        self.commands.append(process)
        return process

    def execute_file(self, file: Path) -> subprocess.Popen[bytes]:
        """Start `slackwater exec --from`."""
        line = [sys.executable, "-m", "slackwater.cli", "exec", "--from", str(file)]
        process = subprocess.Popen(line, env=self.environment, cwd=REPOSITORY)
        self.commands.append(process)
        return process

    def service(self, **settings: Any) -> AgentService:
        chosen = AgentSettings(**{"node": NODE, "sample_seconds": 0.1, "report_seconds": 0.3, **settings})
        return build(chosen, Platform(self.bus, SystemClock(), no_database, self.state_dir))

    @asynccontextmanager
    async def agent(self, service: AgentService | None = None, **settings: Any) -> AsyncIterator[AgentService]:
        """The agent at work in this process."""
        service = service or self.service(**settings)
        started = asyncio.Event()
        running = asyncio.create_task(service.run(started.set))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        try:
            if running.done():
                running.result()
            yield service
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def pod(self, service: AgentService, count: int = 1) -> list[Pod]:
        """The managed pods, once there are so many and each of them runs."""
        return await until(
            lambda: (
                pods
                if len(pods := list(service.driver.pods())) == count
                and all(service.driver.alive(pod.uid) for pod in pods)
                else []
            )
        )

    async def declare(self, **wanted: Any) -> Event[IntentDeclared]:
        self.generation += 1
        document = {
            "node": NODE, "writer": "ensurance", "generation": self.generation,
            "declared_at": datetime.now(UTC), "lease_seconds": 60.0, **wanted,
        }  # fmt: skip
        event = event_of(IntentDeclared.model_validate(document), source="test", time=datetime.now(UTC))
        await self.bus.publish(event)
        return event

    def published(self, payload: type[P]) -> list[Event[P]]:
        return [event for event in self.bus.published if isinstance(event.data, payload)]


def soon(seconds: float = 60.0) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    hierarchy = find_hierarchy()
    if (reason := hierarchy.why_unwritable()) is not None:
        pytest.skip(reason)
    here = Machine(tmp_path / "state", hierarchy)
    here.state_dir.mkdir()
    yield here
    for process in here.commands:
        process.kill()
        process.wait()
    left = here.directories()
    for directory in left:
        kill_all([directory])
        for path in sorted(directory.glob("**/"), key=lambda path: len(path.parts), reverse=True):
            path.rmdir()
    assert left == [], f"left behind: {left}"
