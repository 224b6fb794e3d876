"""Replicas of one service in the simulated world: started, killed and stopped by a test that runs there as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from tests.world.plan import BROKER, POSTGRES, Plan
from tests.world.processes import Process
from tests.world.run import Child
from tests.world.trace import Trace
from tests.world.world import World

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.model.time import Clock

TEST = "test"
LATER_SECONDS = 300 * 86400.0
"""How long after the first window of tests.support.windows the world begins."""
LONGEST_SECONDS = 600.0
NEVER_SECONDS = 10 * LONGEST_SECONDS
POLL_SECONDS = 0.05


class SimulatedReplicas:
    """Of one service, with the connection of the test and its clock."""

    def __init__(self, world: World, service: str, bus: NatsBus, clock: Clock) -> None:
        self.bus = bus
        self.clock = clock
        self._world = world
        self._service = service

    def start(self, number: int) -> None:
        self._world.add(f"{self._service}-{number}", self._world.replica(self._service))

    def kill(self, number: int) -> None:
        """End a replica at whatever it waits for."""
        self._world.crash(f"{self._service}-{number}", NEVER_SECONDS)

    async def stop(self, number: int) -> None:
        """Stop a replica in order."""
        task = self._world.places[f"{self._service}-{number}"].task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """The committed rows of a table of the service, by column."""
        stored = self._world.postgres.schemas[self._service].tables[table]
        return [dict(zip(stored.definition.names, values, strict=True)) for values in stored.committed()]

    def shares(self) -> list[int]:
        """The number of partitions of each owner, sorted."""
        owners = [row["owner"] for row in self.rows("leases")]
        return sorted(owners.count(owner) for owner in set(owners) if owner is not None)

    async def has_shares(self, *expected: int) -> None:
        """Wait until the owners have so many partitions."""
        await until(lambda: self.shares() == list(expected))

    async def settled(self) -> None:
        """Wait until its consumers have nothing left, and all that it decided is published."""
        await until(lambda: not self.rows("outbox") and not self._waiting())

    def _waiting(self) -> int:
        waiting = self._world.broker.waiting()
        return sum(count for consumer, count in waiting.items() if consumer.startswith(f"{self._service}-"))


async def until(condition: Callable[[], bool]) -> None:
    """Poll until it holds. A run that takes too long fails."""
    while not condition():
        await asyncio.sleep(POLL_SECONDS)


Test = Callable[[SimulatedReplicas], Awaitable[None]]


def simulate(service: str, settings: Mapping[str, Any], seed: int, test: Test) -> None:
    """Perform a test beside the replicas that it starts, in a forked process. Raises RuntimeError if it fails, with
    the stack in the captured output. The seed chooses the order of tasks and the delays of the network."""
    Child(partial(_simulate, service, settings, seed, test)).result()


def _simulate(service: str, settings: Mapping[str, Any], seed: int, test: Test) -> None:
    hosts = (BROKER, POSTGRES, TEST, *(f"{service}-{number}" for number in range(2)))
    plan = Plan(seed, settings={service: settings}, clock_offsets=dict.fromkeys(hosts, LATER_SECONDS))
    world = World(plan, Trace())
    has_passed = False

    async def main(process: Process) -> None:
        nonlocal has_passed
        async with world.bus(process) as bus:
            await test(SimulatedReplicas(world, service, bus, process.clock))
        has_passed = True
        world.loop.stop()

    world.add(TEST, main)
    world.loop.run(LONGEST_SECONDS)
    assert has_passed, f"not done within {LONGEST_SECONDS:g} virtual seconds"
