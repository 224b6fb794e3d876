"""Starts by request: once per id whatever crashes, and ended where they do not become ready."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from agent_fakes import FakeDriver, pod
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock

from slackwater.agent.adapters.memory import MemoryStarts
from slackwater.agent.domain.admission import Command
from slackwater.agent.domain.starts import UNSEEN_SECONDS, StartRecord, StartRequest
from slackwater.agent.domain.workload_template import ReadyCheck, WorkloadTemplate
from slackwater.agent.usecases.start_workloads import StartWorkloads
from slackwater.events.intent_declared import IntentDeclared, WorkloadStart
from slackwater.model.errors import Unavailable
from slackwater.model.start_states import StartState
from slackwater.model.workload_labels import START_LABEL

DEADLINE = EPOCH + timedelta(seconds=60)
TEMPLATE = WorkloadTemplate(
    "api", "d1", Command("prod", "1", "1Gi", "api"), ready=ReadyCheck(within_seconds=30), grace_seconds=4, movable=True
)
REQUEST = StartRequest("job-1", "api", "d1", "migration", DEADLINE, "decision")


@dataclass
class FakeLauncher:
    """Pods appear on the machine of `driver` at once; `absent`: they never do."""

    driver: FakeDriver
    templates_now: dict[str, WorkloadTemplate] = field(default_factory=lambda: {"api": TEMPLATE})
    launched: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    ready: bool = True
    absent: bool = False
    refused: bool = False

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        return self.templates_now

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        if self.refused:
            raise Unavailable("no process can be started")
        self.launched.append((uid, labels))
        if not self.absent:
            self.driver.add(pod(uid))

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        return self.ready

    def why_ended(self, uid: str) -> str:
        return "the pod ended with 3"


class FullDisk(MemoryStarts):
    def save(self, records: Mapping[str, StartRecord]) -> None:
        raise Unavailable("no space left")


class Starts:
    """The use case on a machine in memory, with the tasks that it has spawned."""

    def __init__(self, ledger: MemoryStarts | None = None) -> None:
        self.clock = FakeClock()
        self.driver = FakeDriver(self.clock)
        self.launcher = FakeLauncher(self.driver)
        self.ledger = ledger or MemoryStarts()
        self.changed: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.start = self._process()

    def _process(self) -> StartWorkloads:
        return StartWorkloads(
            "n", self.driver, self.launcher, self.ledger, self.clock, self._spawn, self.changed.append
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def consider(self, request: StartRequest = REQUEST, *, alive: bool = True) -> None:
        self.start.consider([request], {request.writer: alive})

    async def crash(self) -> None:
        """The process ends; another one goes on."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        self.start = self._process()
        self.start.resume()

    def states(self) -> list[tuple[StartState, str]]:
        document = IntentDeclared(
            node="n",
            writer="migration",
            generation=1,
            declared_at=EPOCH,
            lease_seconds=30,
            starts=(
                WorkloadStart(
                    id="job-1", workload="api", digest="d1", deadline=DEADLINE, reason="move", decision_id="decision"
                ),
            ),
        )
        return [(one.state, one.detail) for one in self.start.states(document)]


async def test_a_start_is_launched_once_and_ready_when_its_check_says_so() -> None:
    world = Starts()
    world.launcher.ready = False
    world.consider()
    await world.clock.advance(3)
    world.consider()
    assert world.states() == [(StartState.STARTING, "")]
    world.launcher.ready = True
    await world.clock.advance(1)
    world.consider()
    assert world.states() == [(StartState.READY, "")]
    assert [labels for _, labels in world.launcher.launched] == [{START_LABEL: "job-1"}]
    assert world.changed == ["migration", "migration"]
    record = world.ledger.records["job-1"]
    assert record.ready_at is not None
    assert EPOCH + timedelta(seconds=3) <= record.ready_at <= EPOCH + timedelta(seconds=4)


@pytest.mark.parametrize(
    ("request_", "templates", "state", "said"),
    [
        (replace(REQUEST, deadline=EPOCH), {"api": TEMPLATE}, StartState.EXPIRED, "deadline"),
        (REQUEST, {}, StartState.REFUSED, "no workload file api.yaml here"),
        (replace(REQUEST, digest="d2"), {"api": TEMPLATE}, StartState.REFUSED, "the digest d1, the request d2"),
        (REQUEST, {"api": replace(TEMPLATE, movable=False)}, StartState.REFUSED, "movable: true"),
    ],
)
async def test_what_may_not_begin_is_answered_at_once(
    request_: StartRequest, templates: dict[str, WorkloadTemplate], state: StartState, said: str
) -> None:
    world = Starts()
    world.launcher.templates_now = templates
    world.consider(request_)
    assert [one[0] for one in world.states()] == [state]
    assert said in world.states()[0][1]
    assert world.launcher.launched == []


async def test_without_a_lease_or_a_disk_nothing_begins_and_it_is_considered_again() -> None:
    world = Starts()
    world.consider(alive=False)
    assert world.states() == []
    full = Starts(FullDisk())
    full.consider()
    assert full.launcher.launched == []
    assert full.states() == []
    world.consider()
    assert len(world.launcher.launched) == 1


async def test_a_pod_that_is_not_ready_in_time_is_ended_with_its_grace() -> None:
    world = Starts()
    world.launcher.ready = False
    world.consider()
    uid = world.launcher.launched[0][0]
    world.driver.stubborn.add(uid)
    await world.clock.advance(30.1)
    assert world.driver.signals == [(uid, signal.SIGTERM)]
    await world.clock.advance(5)
    assert (uid, signal.SIGKILL) in world.driver.signals
    assert world.states() == [(StartState.FAILED, "not ready within 30 s")]


async def test_a_pod_that_ends_or_never_comes_has_failed() -> None:
    world = Starts()
    world.launcher.ready = False
    world.consider()
    await world.clock.advance(1)
    world.driver.remove(world.launcher.launched[0][0])
    await world.clock.advance(1)
    assert world.states() == [(StartState.FAILED, "the pod ended with 3")]
    absent = Starts()
    absent.launcher.absent = True
    absent.consider()
    await absent.clock.advance(UNSEEN_SECONDS - 1)
    assert absent.states() == [(StartState.STARTING, "")]
    await absent.clock.advance(2)
    assert absent.states() == [(StartState.FAILED, "the pod ended with 3")]
    refused = Starts()
    refused.launcher.refused = True
    refused.consider()
    assert refused.states() == [(StartState.FAILED, "no process can be started")]


async def test_a_start_without_its_file_after_a_restart_is_ended() -> None:
    world = Starts()
    world.launcher.ready = False
    world.consider()
    world.launcher.templates_now = {}
    await world.crash()
    await world.clock.advance(1)
    assert world.states()[0][0] is StartState.FAILED
    assert not world.driver.living


@given(
    st.lists(
        st.tuples(st.sampled_from(["consider", "crash", "ready", "ends", "later"]), st.integers(0, 12)), max_size=9
    )
)
@settings(max_examples=40)
def test_whatever_crashes_there_is_one_launch_and_one_end(history: list[tuple[str, int]]) -> None:
    async def perform() -> None:
        world = Starts()
        world.launcher.ready = False
        ended: list[tuple[StartState, str]] = []
        for what, seconds in history:
            match what:
                case "consider":
                    world.consider()
                case "crash":
                    await world.crash()
                case "ready":
                    world.launcher.ready = True
                case "ends":
                    world.driver.living.clear()
            await world.clock.advance(seconds)
            states = [one for one in world.states() if one[0] is not StartState.STARTING]
            assert not ended or states == ended, "an end is final"
            ended = states or ended
        assert len(world.launcher.launched) <= 1
        await world.clock.advance(60)
        assert all(state is not StartState.STARTING for state, _ in world.states())
        for task in world.tasks:
            task.cancel()
        await asyncio.gather(*world.tasks, return_exceptions=True)

    asyncio.run(perform())


async def test_what_has_ended_is_forgotten_after_its_deadline_once_it_is_not_requested() -> None:
    world = Starts()
    world.consider()
    await world.clock.advance(1)
    world.start.prune("migration", set())
    assert world.ledger.records, "a redelivered request must find it until its deadline"
    await world.clock.advance(60)
    world.start.prune("migration", {"job-1"})
    world.start.prune("ensurance", set())
    assert world.ledger.records
    world.start.prune("migration", set())
    assert not world.ledger.records
