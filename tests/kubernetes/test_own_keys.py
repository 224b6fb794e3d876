"""Nothing that Slackwater does not own ever changes: forms of nodes and ways to write them, in memory and for real."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.drivers import ClusterDriver, MemoryDriver
from tests.kubernetes.own_keys import (
    ALIAS,
    CPU,
    GIB,
    MEMORY,
    MID,
    OFFERS,
    RIVAL,
    Form,
    History,
    Model,
    Step,
    document_of,
    drawn,
    others_of,
    status_of,
)
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.statements import answer_common
from tests.support.store import MemoryDatabase

from slackwater.apiserver.records import CORDON_TAINT, NODES, parse_node
from slackwater.events.envelope import event_of
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.service import KubernetesService
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.uninstall import withdraw_all
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock, SystemClock
from slackwater.runtime.platform import Platform

PATIENCE_SECONDS = 60.0
CONNECTING_SECONDS = 0.5
"""Until its watches are connected: a handshake that is cancelled leaves its socket to the collector, with a warning."""
SEEDS = {"memory": range(12), "real": range(2)}
CASES = [
    pytest.param(where, form, seed, id=f"{where}-{form}-{seed}")
    for where, seeds in SEEDS.items()
    for form in Form
    for seed in seeds
]


class Stage:
    """One node, the service beside it, and what it must look like."""

    def __init__(self, driver: ClusterDriver, history: History) -> None:
        self.driver, self.history = driver, history
        self.name = driver.name(f"own-{history.form}")
        self.model = Model(history.aliases)
        self.clock: Clock = FakeClock() if isinstance(driver, MemoryDriver) else SystemClock()
        self._draw = random.Random(repr(history))
        self._running: asyncio.Task[None] | None = None
        self._generation = 0
        self._forget()

    def _forget(self) -> None:
        """A bus without offers."""
        self.bus = MemoryBus(clock=self.clock)
        database = MemoryDatabase(clock=self.clock)
        answer_common(database.answers, database.announce)
        self._platform = Platform(self.bus, self.clock, lambda _: database, Path("/nowhere"))

    async def prepare(self) -> None:
        form = self.history.form
        await self.driver.register(document_of(form, self.name))
        if form in (Form.REPORTED, Form.IN_PART):
            for part in ("allocatable",) if form is Form.IN_PART else ("allocatable", "capacity"):
                await self.driver.write_status(self.name, part, {"cpu": "7", "memory": "15Gi", "pods": "100"})
        if form is Form.SHARED:
            await self.driver.apply_status(self.name, "device-plugin", {"example.com/fpga": "3"})
            await self.driver.write_status(self.name, "capacity", {"example.com/nic": "1"}, "network-operator")
        if form is Form.WITHOUT_MANAGERS:
            await self.driver.remove_managers(self.name)
        self.before = others_of(await self.driver.document(NODES, self.name))
        self.model.note(self.before)
        if form is Form.RIVALLED:
            await self.driver.write_lent(self.name, RIVAL, {CPU: 700, ALIAS: 800})
        if form in (Form.RIVALLED, Form.WITH_OWN_NAME):
            self.model.foreign |= {CPU: 700, ALIAS: 800}

    async def play(self) -> None:
        """Every step, with the node compared after each."""
        await self.start()
        for step in self.history.steps:
            await self.take(step)
            await self.compared(step)
        await self.stop()
        names = [name for name in self.model.wanted() if name in (CPU, MEMORY, MID)]
        if names and self._draw.random() < 0.3:  # a kubelet that registers again while the service is away
            await self.driver.write_lent(self.name, "kubelet", dict.fromkeys(names, 0))
        await withdraw_all(self.driver.api, wait_seconds=0)
        self.model.offered = {}
        document = await self.driver.document(NODES, self.name)
        assert others_of(document) == self.expected()
        assert status_of(document) == self.model.status()
        assert CORDON_TAINT not in {taint["key"] for taint in document.get("spec", {}).get("taints") or ()}

    def expected(self) -> Any:
        """What is not Slackwater's: as before, with what others have written since."""
        status = {**self.before["status"], **{part: kept for part, kept in self.model.amounts.items() if kept}}
        return {**self.before, "status": status}

    async def take(self, step: Step) -> None:
        if step in OFFERS:
            self.model.offer(step, self._draw)
            await self.publish_offer()
        elif step in (Step.RESTART, Step.DISABLE, Step.FORGET, Step.ALIASES):
            await self.stop()
            await self._start_after(step)
        elif step is Step.CORDON:
            await self.publish_cordon()
        else:
            await self._write_as_another(step)

    async def _start_after(self, step: Step) -> None:
        if step is Step.DISABLE:
            await self.start(write_offers=False)
            offered, self.model.offered = self.model.offered, {}
            await self.compared(step)
            self.model.offered = offered
            await self.stop()
        if step is Step.FORGET:
            self._forget()
            self.model.offered = {}
        if step is Step.ALIASES:
            self.model.aliases = not self.model.aliases
        await self.start()

    async def _write_as_another(self, step: Step) -> None:
        model = self.model
        if step is Step.RESET:
            await self.driver.write_lent(self.name, "kubelet", dict.fromkeys(model.wanted(), 0))
        elif step is Step.REPORT:
            memory = f"{self._draw.randrange(8, 15)}Gi"
            for part in model.amounts:
                await self.driver.write_status(self.name, part, {"memory": memory})
                model.amounts[part]["memory"] = memory
        elif step is Step.EMPTIED:
            for part, amounts in model.amounts.items():
                own: dict[str, str] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
                await self.driver.write_status(self.name, part, dict.fromkeys(own, "0"))
                await self.passes(1.0)
                await self.driver.write_status(self.name, part, own)
        elif step is Step.TAINT:
            self.before = others_of(await self.driver.mark(self.name, f"t{self._draw.randrange(100)}"))
        elif step is Step.REPLACED:
            await self._replace()
        else:
            await self._write_as_rival(step)

    async def _write_as_rival(self, step: Step) -> None:
        model = self.model
        if step is Step.RIVAL:
            await self.driver.write_lent(self.name, RIVAL, {CPU: 333})
            model.foreign[CPU] = 333
            model.in_part.discard(CPU)
        elif step is Step.RIVAL_IN_PART and CPU not in model.foreign:
            await self.driver.write_status(self.name, "allocatable", {CPU: "444"}, RIVAL)
            model.foreign[CPU] = 444
            model.in_part.add(CPU)
        elif step is Step.RIVAL_APPLIES:
            await self.driver.apply_status(self.name, RIVAL, {CPU: "222", MEMORY: "77Gi"})
            model.foreign |= {CPU: 222, MEMORY: 77 * GIB}
            model.in_part.discard(CPU)
        elif step is Step.RIVAL_LEAVES:
            await self.driver.write_lent(self.name, RIVAL, {CPU: None, MEMORY: None})
            for name in (CPU, MEMORY):
                model.foreign.pop(name, None)
                model.in_part.discard(name)

    async def _replace(self) -> None:
        await self.driver.delete(NODES, self.name)
        await self.driver.register(document_of(Form.REGISTERED, self.name))
        self.before = others_of(await self.driver.document(NODES, self.name))
        self.model.note(self.before)
        self.model.foreign, self.model.in_part = {}, set()

    async def compared(self, step: Step) -> None:
        """Wait until the node is as the model says; never may anything else differ."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for _ in range(4_000):
            document = await self.driver.document(NODES, self.name)
            assert others_of(document) == self.expected(), step
            if status_of(document) == self.model.status():
                return
            assert time.monotonic() < deadline, (step, status_of(document), self.model.status())
            await self.passes(0.1)
        raise AssertionError((step, status_of(document), self.model.status()))

    async def passes(self, seconds: float) -> None:
        if isinstance(self.clock, FakeClock):
            await self.clock.advance(seconds)
            await self.bus.idle()
        else:
            await asyncio.sleep(seconds / 2)

    async def start(self, **settings: Any) -> None:
        async def nothing() -> None:
            """The server is connected already."""

        named = KubernetesSettings(aliases=self.model.aliases, orphan_seconds=1.0, profiles="off", **settings)
        service = KubernetesService(named, self._platform, self.driver.api, nothing, nothing)
        started = asyncio.Event()
        self._running = asyncio.create_task(service.run(started.set))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (started.is_set() and service.inventory.synced):
            assert not self._running.done(), self._running.result()
            assert time.monotonic() < deadline
            await self.passes(0.01)
        await self.passes(CONNECTING_SECONDS)

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None

    async def publish_offer(self) -> None:
        self._generation += 1
        offered, now = self.model.offered, self.clock.now()
        event = ResourcesOffered(
            node=self.name,
            offered_at=now,
            generation=self._generation,
            batch=Resources(offered.get("batch-cpu", 0), offered.get("batch-memory", 0)),
            mid=Resources(offered.get("mid-cpu", 0), offered.get("mid-memory", 0)),
            degraded=None if offered else "no usage",
            decision_ids={subject: f"decision-{subject}" for subject in offered},
        )
        await self.bus.publish(event_of(event, source="colocation", time=now))

    async def publish_cordon(self) -> None:
        now = self.clock.now()
        event = NodeSchedulingChanged(
            node=self.name,
            closed=True,
            reason="scheduling_closed",
            decision_id="d",
            rules=("p.r",),
            since=now,
            told_at=now,
            valid_until=now + timedelta(minutes=2),
        )
        await self.bus.publish(event_of(event, source="ensurance", time=now))


@pytest.mark.parametrize(("cluster", "form", "seed"), CASES, indirect=["cluster"])
async def test_a_node_differs_in_own_keys_alone_and_after_uninstall_not_at_all(
    cluster: ClusterDriver, form: Form, seed: int
) -> None:
    async with AsyncExitStack() as stack:
        stage = Stage(cluster, drawn(form, seed))
        stack.push_async_callback(stage.stop)
        await stage.prepare()
        await stage.play()


@pytest.mark.parametrize("form", [Form.REGISTERED, Form.WITHOUT_LABELS, Form.RIVALLED])
async def test_every_way_to_write_after_every_other(cluster: ClusterDriver, form: Form) -> None:
    async with AsyncExitStack() as stack:
        steps = [step for other in Step for step in (Step.OFFER, other)]
        stage = Stage(cluster, History(form, form is Form.RIVALLED, steps))
        stack.push_async_callback(stage.stop)
        await stage.prepare()
        await stage.play()


async def test_amounts_without_notes_on_managers_are_still_known_to_the_process_that_wrote_them(
    cluster: ClusterDriver,
) -> None:
    async with AsyncExitStack() as stack:
        stage = Stage(cluster, History(Form.REGISTERED, False, ()))
        stack.push_async_callback(stage.stop)
        await stage.prepare()
        await stage.start()
        await stage.take(Step.OFFER)
        await stage.compared(Step.OFFER)
        await cluster.remove_managers(stage.name)
        for step in (Step.FALL, Step.RESTART, Step.OFFER, Step.WITHDRAW):
            await stage.take(step)
            await stage.compared(step)
        assert parse_node(await cluster.document(NODES, stage.name)).lent == ()
