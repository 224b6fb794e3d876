"""Surges in virtual time: requests at random on a small machine, an agent that samples it, the product's own cycle.

What takes ten minutes of a quiet machine in `make run` takes two seconds here and is the same every time. The machine
is a sketch: prod runs first, batch burns what its quota of each second allows as soon as CPU is free, every pod in a
period of its own. The agent samples once a second, and looks half a second after a calm sample (decision 0005).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.bench.policies import documents
from tests.bench.policies.comparison import CpuUse, Lowered, MachineUse, SurgeFigures, SurgeSeen, figures
from waterline_crowd import NOON

from slackwater.decisions.reasons import Mode
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.loop.applied_limits import pod_view
from slackwater.waterline.node_guard import GuardState, confirmed, guard
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.rulebook import Rulebook, rulebook_of

CPUS, PODS, LIMIT_MILLI, OTHER_CPUS = 2, 8, 105, 0.1
REQUEST_SECONDS, REST_RATE, SURGE_RATE = 0.009, 22.0, 133.0
STEP_SECONDS, READ_EVERY = 0.005, 4
WANTED_CPUS = PODS * LIMIT_MILLI / 1000
_PRESENT = {"kind": "NodeQOS", "metadata": {"name": "default", "generation": 1}}


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the waterline is, and how many requests a second a surge has."""

    levels: documents.Levels
    surge_rate: float

    def rules(self) -> Rulebook:
        """Hundreds of surges an hour are measured here, none of which is to be damped."""
        book = rulebook_of(NodeQos.parse(documents.document(_PRESENT, documents.PRECISE, self.levels)))
        return replace(book, loop=replace(book.loop, surges_per_hour=3600))


FULL, COMPARED = Scene(documents.FULL, SURGE_RATE), Scene(documents.COMPARED, 97.0)
"""Of each, batch keeps about a third of what it wants."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Cumulative seconds at one moment, as a kernel has them; of batch by pod."""

    at: float
    busy: float
    prod: float
    prod_waited: float
    batch: tuple[float, ...]
    batch_waited: tuple[float, ...]


@dataclass
class RandomMachine:
    """In steps of five milliseconds. `limits` in milli-cores, quotas per second."""

    chance: random.Random
    limits: list[int] = field(default_factory=lambda: [LIMIT_MILLI] * PODS)
    at: float = 0.0
    busy: float = 0.0
    prod: float = 0.0
    prod_waited: float = 0.0
    _requests: list[float] = field(default_factory=list)
    _rate: float = REST_RATE
    _next: float = 0.0

    def __post_init__(self) -> None:
        self._left = [limit / 1000 for limit in self.limits]
        self._phases = [self.chance.random() for _ in range(PODS)]
        self._batch, self._waited = [0.0] * PODS, [0.0] * PODS

    def counters(self) -> Counters:
        return Counters(self.at, self.busy, self.prod, self.prod_waited, tuple(self._batch), tuple(self._waited))

    def serve(self, rate: float) -> None:
        """So many requests a second from now on."""
        self._rate, self._next = rate, self.at + self.chance.expovariate(rate)

    def limit(self, pod: int, milli: int) -> None:
        used = self.limits[pod] / 1000 - self._left[pod]
        self.limits[pod], self._left[pod] = milli, max(0.0, milli / 1000 - used)

    def step(self) -> None:
        free = CPUS * STEP_SECONDS
        free -= self._run_others(free)
        free -= self._run_prod(free)
        self._run_batch(free)
        self.at += STEP_SECONDS
        for pod, phase in enumerate(self._phases):
            if int(self.at + phase) != int(self.at + phase - STEP_SECONDS):
                self._left[pod] = self.limits[pod] / 1000

    def _run_others(self, free: float) -> float:
        run = min(free, OTHER_CPUS * STEP_SECONDS * self.chance.choice((0, 0, 0, 4)))
        self.busy += run
        return run

    def _run_prod(self, free: float) -> float:
        while self._next <= self.at:
            self._requests.append(REQUEST_SECONDS * (0.6 + 0.4 * self.chance.expovariate(1.0)))
            self._next += self.chance.expovariate(self._rate)
        spent = 0.0
        for number, left in enumerate(self._requests):
            run = min(STEP_SECONDS, left, free - spent)
            if run <= 0:
                self.prod_waited += STEP_SECONDS
                break
            self._requests[number] -= run
            spent += run
        self._requests = [left for left in self._requests if left > 1e-9]
        self.prod += spent
        self.busy += spent
        return spent

    def _run_batch(self, free: float) -> None:
        before, hungry = tuple(self._batch), [pod for pod, left in enumerate(self._left) if left > 1e-9]
        self.chance.shuffle(hungry)
        while hungry and free > 1e-12:
            pod = hungry.pop()
            run = min(free / (len(hungry) + 1), self._left[pod], STEP_SECONDS)
            self._left[pod] -= run
            self._batch[pod] += run
            self.busy += run
            free -= run
        for pod in range(PODS):  # a task that is kept from running by its quota waits as well
            self._waited[pod] += STEP_SECONDS - (self._batch[pod] - before[pod])


def _pod(uid: str, tier: Tier) -> Pod:
    request = Resources(LIMIT_MILLI, 1 << 20)
    return Pod(uid, uid, "default", f"w-{uid}", tier, default_qos(tier), DEFAULT_PRIORITY[tier], request, NOON)


_PROD, _BATCH = _pod("prod", Tier.PROD), [_pod(f"b{number}", Tier.BATCH) for number in range(PODS)]


@dataclass
class Watched:
    """A machine, its samples and its decisions; a change is in force 40 to 100 ms after its sample."""

    machine: RandomMachine
    scene: Scene = FULL
    state: GuardState = field(default_factory=GuardState)
    lowered: list[Lowered] = field(default_factory=list)
    used: list[CpuUse] = field(default_factory=list)
    _coming: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._rules = self.scene.rules()
        self._before = self.machine.counters()
        self._rhythm = self._sampling()
        self._wakes_at = next(self._rhythm)

    @property
    def holds(self) -> bool:
        return any(limit != LIMIT_MILLI for limit in self.machine.limits)

    def run(self, until: float) -> None:
        while self.machine.at < until - 1e-9:
            self.machine.step()
            self._steps += 1
            now = self.machine.at
            if self._steps % READ_EVERY == 0:
                read = self.machine.counters()
                self.used.append(CpuUse(now, read.busy, sum(read.batch)))
            for moment, act in [one for one in self._coming if one[0] <= now]:
                self._coming.remove((moment, act))
                act()
            if self._wakes_at <= now + 1e-9:
                self._wakes_at = next(self._rhythm)

    def _sampling(self) -> Iterator[float]:
        """When to look next."""
        due = self.machine.at + 1.0
        yield due
        while True:
            above = self._sample()
            due += 1.0
            if not above and not self.holds:
                yield due - 0.5
                if self._ratio(self.machine.counters()) > self.scene.levels.waterline:
                    due = self.machine.at
                    continue
            yield due

    def _ratio(self, now: Counters) -> float:
        return (now.busy - self._before.busy) / (now.at - self._before.at) / CPUS

    def _sample(self) -> bool:
        before, now, ratio = self._before, self.machine.counters(), self._ratio(self.machine.counters())
        view, self._before = self._view(before, now, ratio), now
        delay = self.machine.chance.uniform(0.04, 0.1)
        self._coming.append((now.at + delay / 2, lambda: self._decide(view, delay / 2)))
        return ratio > self.scene.levels.waterline

    def _view(self, before: Counters, now: Counters, ratio: float) -> NodeReadings:
        seconds, ours = now.at - before.at, self.state.by_uid()
        prod, used = round(1000 * (now.prod - before.prod) / seconds), round(1000 * CPUS * ratio)
        readings = {
            "node_cpu_usage": used,
            "node_cpu_usage_ratio": used / (1000 * CPUS),
            "prod_cpu_pressure": (now.prod_waited - before.prod_waited) / seconds,
        }
        batch = [
            pod_view(
                pod,
                round(1000 * (now.batch[number] - before.batch[number]) / seconds),
                1 << 20,
                LIMIT_MILLI,
                ours.get(pod.uid),
                waiting_ratio=min(1.0, (now.batch_waited[number] - before.batch_waited[number]) / seconds),
            )
            for number, pod in enumerate(_BATCH)
        ]
        return NodeReadings(
            node="n1",
            sampled_at=_time(now.at),
            readings={name: (MetricSeries(value),) for name, value in readings.items()},
            capacity_milli=1000 * CPUS,
            capacity_bytes=1 << 34,
            pods=(*batch, pod_view(_PROD, prod, 1 << 20, None, None)),
            prod_usage_milli=prod,
        )

    def _decide(self, view: NodeReadings, delay: float) -> None:
        made = guard(view, self.state, self._rules.policies, _time(self.machine.at), self._rules.options(Mode.THROTTLE))
        self.state = made.state
        if made.cycle.plan.steps:
            self._coming.append((self.machine.at + delay, self._carry_out))

    def _carry_out(self) -> None:
        for number, pod in enumerate(_BATCH):
            ours = self.state.by_uid().get(pod.uid)
            limit = LIMIT_MILLI if ours is None else ours.limit_milli
            if limit < self.machine.limits[number]:
                self.lowered.append(Lowered(self.machine.at, pod.uid))
            self.machine.limit(number, limit)
        self.state = confirmed(self.state, _time(self.machine.at))


def surges(count: int, seconds: float, seed: int, scene: Scene = FULL) -> tuple[list[SurgeFigures], Watched]:
    """So many surges of so many seconds, each after a rest in which batch has had everything back for three seconds;
    and the watched machine at their end."""
    chance = random.Random(seed)
    watched = Watched(RandomMachine(chance), scene)
    machine, levels = watched.machine, scene.levels
    found: list[SurgeFigures] = []
    for _ in range(count):
        rested = machine.at
        watched.run(rested + 3.0 + chance.random())
        began = machine.at
        machine.serve(scene.surge_rate)
        watched.run(began + seconds)
        machine.serve(REST_RATE)
        watched.run(machine.at + 0.5)
        while watched.holds and machine.at < began + seconds + 25.0:
            watched.run(machine.at + 0.1)
        seen = SurgeSeen("", began, began + seconds, machine.at, tuple(watched.used), tuple(watched.lowered), ())
        found.append(figures(seen, MachineUse(CPUS, levels.waterline, levels.target, WANTED_CPUS)))
        watched.used.clear()
        watched.lowered.clear()
    return found, watched


def _time(at: float) -> datetime:
    return NOON + timedelta(seconds=at)
