"""Every limit on a machine is wanted by a live intent or the agent itself, and none holds a pod that ends."""

from __future__ import annotations

import math
from datetime import datetime
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.agent.evictions import ledger_of
from tests.world.invariants.core.at_rest import amount_in
from tests.world.machine.kernel import AGENT, Write
from tests.world.machine.station import Station
from tests.world.processes import State
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.agent.domain.controls.cpu_limit import ENDING_SHARE, RESTORE_STEP

CPU_FILES = frozenset({"cpu.max", "cpu.cfs_quota_us"})
MEMORY_FILES = frozenset({"memory.high", "memory.limit_in_bytes"})
PERIOD_US = 100_000
EASED_SECONDS = 1 / RESTORE_STEP
"""So long after its lease the limits of a document have risen to the top."""
SAMPLES = 3
"""So many samples late a restore may be: an agent skips intervals while it is busy."""
CHECKED_SECONDS = 5.0
"""Between two checks of all machines."""
REPORT = "sw.v1.usage.reported."


class LimitsAreWanted(Invariant):
    """A limit is written only for a pod that a document or the agent itself names, and goes back when none does."""

    NAME = "limits are wanted"
    KINDS: ClassVar[tuple[Kind, ...]] = (Kind.KNOB_WRITTEN, Kind.STORED, Kind.BROADCAST)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._by_node: dict[str, Station] = {}
        self._checked_at = 0.0

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.KNOB_WRITTEN:
            station, write = step.value
            self._check_write(station, write)
        elif step.kind is Kind.BROADCAST:
            self._check_all(step.at)
        elif step.subject.startswith(REPORT):
            station = self._station(step.subject.rpartition(".")[2])
            if station is not None and self._is_at_work(station):
                self.check(station)

    def at_rest(self) -> None:
        for station in self.world.stations.values():
            if self._is_at_work(station):
                self.check(station)

    def _check_all(self, now: float) -> None:
        """Also of agents that are cut off: their reports are not stored."""
        if now - self._checked_at >= CHECKED_SECONDS:
            self._checked_at = now
            self.at_rest()

    def check(self, station: Station) -> None:
        """Every limit that is not the text from before the agent. Raises Violation."""
        slack = self._slack(station)
        if station.time() - station.refused_at < slack:
            return
        for path, (plain, now) in station.machine.kernel.differences().items():
            name, uid = limited(path)
            if name and not _names(station, uid, name, slack):
                raise Violation(f"{station.node}: {path} holds {now!r} ({plain!r} before), and no writer wants a limit")

    def _check_write(self, station: Station, write: Write) -> None:
        name, uid = limited(write.path)
        if not name or write.by != AGENT or write.path not in station.machine.kernel.differences():
            return
        if not _names(station, uid, name, self._slack(station)):
            raise Violation(f"{station.node}: {write.path} was set to {write.after!r}, and no writer wants a limit")

    def _slack(self, station: Station) -> float:
        service = station.service
        return 0.0 if service is None else SAMPLES * service.settings.sample_seconds

    def _station(self, node: str) -> Station | None:
        if not self._by_node:
            self._by_node = {station.node: station for station in self.world.stations.values()}
        return self._by_node.get(node)

    def _is_at_work(self, station: Station) -> bool:
        """Whether its agent samples: one that is dead or stopped by a signal gives nothing back now."""
        name = next(name for name, one in self.world.stations.items() if one is station)
        process, service = self.world.places[name].process, station.service
        if process is None or process.state is not State.RUNNING or service is None:
            return False
        age = service.sample_age_seconds()
        return age is not None and age <= service.settings.sample_seconds


def limited(path: str) -> tuple[str, str]:
    """The file's name and the pod's uid, if the file limits a pod."""
    *above, uid, name = path.split("/")
    is_pod = above[-2].startswith("slackwater-")
    return (name, uid) if is_pod and name in CPU_FILES | MEMORY_FILES else ("", "")


def _names(station: Station, uid: str, name: str, slack: float) -> bool:
    """Whether a document that still counts, or the agent itself, wants such a limit of the pod."""
    service = station.service
    if service is None:
        return False
    now = station.clock.monotonic()
    for state in service.desired_states():
        wanted = state.throttles if name in CPU_FILES else state.memory_throttles
        lapsed_seconds = now - state.received - state.lease_seconds
        if any(one.pod_uid == uid for one in wanted) and lapsed_seconds < EASED_SECONDS + slack:
            return True
    return False


class EndingPodsAreNotHeld(LimitsAreWanted):
    """A pod that was sent SIGTERM is not limited below its part of the CPU that pods in their grace period share."""

    NAME = "ending pods are not held"
    KINDS: ClassVar[tuple[Kind, ...]] = (Kind.STORED, Kind.BROADCAST)

    def check(self, station: Station) -> None:
        slack, differences = self._slack(station), station.machine.kernel.differences()
        is_refused = station.disk.is_read_only or station.disk.room is not None
        if is_refused or station.time() - station.refused_at < slack:
            return
        ending = {one["pod_uid"]: one for one in ledger_of(station) if one["outcome"] is None}
        for path, (plain, now) in differences.items():
            name, uid = limited(path)
            if name not in CPU_FILES or uid not in ending:
                continue
            seconds = (station.clock.now() - datetime.fromisoformat(ending[uid]["started_at"])).total_seconds()
            least = ENDING_SHARE * station.machine.hardware.cpus * 1000 / len(ending) * PERIOD_US / 1000
            if seconds > slack and amount_in(now) < min(math.floor(least), amount_in(plain)):
                raise Violation(f"{station.node}: {uid} ends since {seconds:g} s, and {path} holds {now!r}")


INVARIANTS = (LimitsAreWanted, EndingPodsAreNotHeld)
