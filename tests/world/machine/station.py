"""One node of the world: a machine, the disk of its agent, the owners of its pods, and what goes wrong there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.world.machine.disk import Disk
from tests.world.machine.driver import MachineDriver, MachineLock
from tests.world.machine.fleet import FleetSizes, Workload, draw_hardware
from tests.world.machine.kernel import AGENT, Write
from tests.world.machine.machine import SIGNALLED, Effect, Machine

from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build_agent, state_in
from slackwater.agent.settings import AgentSettings
from slackwater.model.time import Clock
from slackwater.runtime.platform import Platform

FOLDER = Path("/state/agent")
REFUSALS = (errno.EACCES, errno.EBUSY, errno.EINVAL, errno.EIO)
POOL = "simulated"
Record = Callable[..., None]


class Killed(BaseException):
    """The agent's process is gone in the middle of its work: what it would do next has no effect."""


@dataclass(slots=True, eq=False)
class Station:
    """`record` appends a step to the history; `kinds` are the names of the steps: file written, pod started, pod ended,
    pod signalled."""

    node: str
    time: Callable[[], float]
    clock: Clock
    rng: Random
    sizes: FleetSizes
    machine: Machine = field(init=False)
    disk: Disk = field(default_factory=Disk)
    workload: Workload = field(init=False)
    service: AgentService | None = None
    """The agent of the newest process, also after its end."""
    on_write: Callable[[Station, Write], None] = lambda station, write: None
    on_effect: Callable[[Station, Effect], None] = lambda station, effect: None
    on_open: Callable[[Station], None] = lambda station: None
    """Called when an agent has put right what an earlier one left, before it does anything else."""
    refusal: float = 0.0
    """How probable it is that a file refuses the agent."""
    refused: int = 0
    refused_at: float = float("-inf")
    vanishes_after: int | None = None
    """A pod ends at the agent's so-manieth look at its files from here."""
    dies_after: int | None = None
    """The agent is killed at its so-manieth look at a file from here."""
    on_kill: Callable[[], None] = lambda: None
    _is_killed: bool = False

    def __post_init__(self) -> None:
        hardware = draw_hardware(self.rng)
        self.machine = Machine(self.node, self.time, self.clock, hardware, self._wrote, self._happened)
        self.machine.kernel.called = self._called
        self.workload = Workload(self.machine, self.rng, self.sizes)
        self.workload.begin()

    def agent(self, settings: AgentSettings, platform: Platform) -> AgentService:
        """The agent for a new process, with the state that earlier ones left on the disk."""
        self._is_killed = False
        driver = MachineDriver(self.machine, POOL, opened=lambda: self.on_open(self))
        state = state_in(FOLDER, MachineLock(self.machine), self.disk, f"boot-{self.machine.boots}")
        self.service = build_agent(settings, platform, driver, state)
        return self.service

    def agent_died(self) -> None:
        """The process of the agent is gone, however it ended."""
        self.machine.agent_is_up = False
        self.disk.process_died()

    def reboot(self) -> None:
        """The power fails and comes back: new pods, and what the disk had of the files. The agent must be dead."""
        self.machine.reboot()
        self.disk.power_failed(self.rng)
        self.workload.begin()

    def rest(self) -> None:
        """Demand stays as it is from here on, and no pod is started or ended. What was to happen at a later look at the
        files does not happen any more: a fault that has no end of its own must not meet the quiet time."""
        self.vanishes_after = self.dies_after = None
        self.workload.is_quiet = True
        self.machine.hold_load()

    def write_foreign(self) -> None:
        """Another program writes one of the files that the agent may write."""
        pods = [path for path in self.machine.kernel.writable() if path.count("/") >= self._depth()]
        if not pods:
            return
        path = self.rng.choice(pods)
        name = path.rpartition("/")[2]
        texts = {"cpu.max": "77777 100000", "cpu.cfs_quota_us": "77777", "cpu.weight": "77", "cpu.shares": "7777"}
        if name in texts:
            self.machine.write_foreign(path, texts[name])

    def _depth(self) -> int:
        return 6 if self.machine.hardware.pure_v2 else 7

    def _called(self, operation: str, path: str) -> int | None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after <= 0:
                self.dies_after, self._is_killed = None, True
                self.on_kill()
        if self._is_killed:
            raise Killed
        if self.vanishes_after is not None:
            self.vanishes_after -= 1
            if self.vanishes_after <= 0:
                self.vanishes_after = None
                uid = path.split("/")[-2]
                if uid in self.machine.pods:
                    self.machine.end(uid, "vanished under the agent's hands")
        if self.refusal and self.rng.random() < self.refusal:
            self.refused += 1
            self.refused_at = self.time()
            return self.rng.choice(REFUSALS)
        return None

    def _wrote(self, write: Write) -> None:
        self.on_write(self, write)

    def _happened(self, effect: Effect) -> None:
        self.on_effect(self, effect)
        if effect.kind == "pod_ended" and effect.what in SIGNALLED:
            self.workload.replace_evicted(effect.pod)


def settings_of(node: str, given: dict[str, Any]) -> AgentSettings:
    return AgentSettings(node=node, pool=POOL, **given)


def is_of_agent(write: Write) -> bool:
    return write.by == AGENT
