"""Presents a trace as scenes: its series on generated nodes are prod; batch is a share of them, or fills the offers.

`fill`: the demand of additional batch pods is exactly what colocation's default strategy would have offered. A share:
that part of the series, drawn at random, is batch instead of prod. A sample is constant for its five minutes, because
a trace does not contain changes within a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier
from slackwater.offers.closed_loop import Decide, Filling
from slackwater.offers.fleet import Ints
from slackwater.simulation.adapters.trace_history import TraceHistory
from slackwater.simulation.domain.scenes import PodDemand, SceneNode, UsageScene
from slackwater.simulation.usecases.placed_usage import PLACES, Now, Placed
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import CELL_SECONDS

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""The start time of all pods: a trace does not contain it."""


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """`share` of the series is batch (None: batch fills the offers with `pods` equal pods per node). The capacity of a
    node is the sum of its series' limits divided by `overcommit`. `seed` selects the series that are batch."""

    share: float | None = None
    pods: int = 4
    overcommit: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.pods <= 100:
            raise InvalidInput(f"--batch-pods: {self.pods} is not allowed; 1 to 100", field="batch-pods")
        if not 0.1 <= self.overcommit <= 100:
            raise InvalidInput(f"--overcommit: {self.overcommit:g} is not allowed; 0.1 to 100", field="overcommit")


def share_of(text: str) -> float | None:
    """Parses `fill` (None), `0.3` or `30%`. Raises InvalidInput."""
    if text == "fill":
        return None
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)(%?)", text)
    share = float("nan") if found is None else float(found[1]) / (100 if found[2] else 1)
    if not 0 < share < 1:
        raise InvalidInput(
            f"--batch: {text!r} is not allowed; `fill`, or a share of the series above 0 and below 1, like 0.3 or 30%",
            field="batch",
        )
    return share


@dataclass(frozen=True)
class TraceScenes:
    """See slackwater.simulation.ports.SceneHistory."""

    history: TraceHistory
    layout: BatchLayout
    decide: Decide
    """Computes the offers that batch fills."""

    @property
    def title(self) -> str:
        return self.history.title

    @property
    def nodes(self) -> Sequence[SceneNode]:
        return [SceneNode(name) for name in self.history.nodes]

    @property
    def period_seconds(self) -> int:
        return CELL_SECONDS

    @property
    def steps(self) -> int:
        return self.history.stop - self.history.first

    @property
    def start_seconds(self) -> float:
        return self.history.start_seconds

    @property
    def notes(self) -> Sequence[str]:
        first, *_ = self.history.notes if self.layout.share is None else self.history.placed.notes
        return (
            f"{first}; a node's capacity is the maximum combined limit of its series{self._squeezed}",
            self._batch,
            "a sample is constant for five minutes: shorter peaks are not in a trace, and every surge starts at once",
            "pressure of prod is modelled as the demand that batch leaves no room for, without CPU weights",
        )

    @property
    def _squeezed(self) -> str:
        return "" if self.layout.overcommit == 1 else f", divided by {self.layout.overcommit:g}"

    @property
    def _batch(self) -> str:
        if self.layout.share is None:
            pods = self.layout.pods
            return (
                f"batch: {pods} pod{'s' if pods > 1 else ''} on each node, whose demand is all that the default "
                "strategy would have offered"
            )
        count = int(_drawn(self.history.placed, self.layout).sum())
        return f"batch: {count} of the series, selected at random (--seed {self.layout.seed}); all others are prod"

    def scenes(self) -> Iterator[Sequence[UsageScene | None]]:
        yield from self._filled() if self.layout.share is None else self._shared()

    def _filled(self) -> Iterator[Sequence[UsageScene | None]]:
        filling = Filling(self.decide)
        pods: list[tuple[tuple[int, int], Sequence[PodDemand]]] = [((-1, -1), ())] * len(self.history.nodes)
        for cell, period in enumerate(self.history.periods()):
            batch = filling.step(period).batch.tolist()
            if cell < self.history.first:
                continue
            prod, capacity = period.prod.tolist(), period.known.capacity.tolist()
            found: list[UsageScene | None] = []
            for node, (cpu, memory) in enumerate(batch):
                if pods[node][0] != (cpu, memory):
                    pods[node] = (cpu, memory), self._pods(node, cpu, memory)
                found.append(_scene(capacity[node], prod[node], pods[node][1]))
            yield found

    def _pods(self, node: int, cpu: int, memory: int) -> Sequence[PodDemand]:
        """Returns equal parts; the remainder goes to the first ones."""
        count, made = self.layout.pods, []
        for number in range(count):
            milli, size = cpu // count + (number < cpu % count), memory // count + (number < memory % count)
            made.append(PodDemand(_pod(f"batch-{node + 1}-{number + 1}", milli, size), milli, size))
        return made

    def _shared(self) -> Iterator[Sequence[UsageScene | None]]:
        placed, known = self.history.placed, dict[int, Pod]()
        is_batch, names = _drawn(placed, self.layout), placed.any_trace.names
        for now in placed.moments(self.history.stop):
            one = next(iter(now.values()))
            if one.cell < self.history.first:
                continue
            lent = is_batch[one.seats.series]
            usage = _amounts(now)
            prod = self._sums(one.seats.machine[~lent], usage[~lent])
            there = placed.there
            capacity = placed.capacity if there is None else placed.capacity * there[one.cell][:, None]
            pods: list[list[PodDemand]] = [[] for _ in placed.nodes]
            limits = np.ceil(now[TraceResource.CPU].limit).astype(np.int64) if TraceResource.CPU in now else usage[:, 0]
            for member in np.flatnonzero(lent).tolist():
                stay, limit = int(one.seats.stay[member]), int(limits[member])
                if stay not in known:
                    name = names[int(one.seats.series[member])]
                    known[stay] = replace(_pod(f"{name}@{stay}", limit, 0), name=name)
                cpu, memory = usage[member].tolist()
                pods[int(one.seats.machine[member])].append(PodDemand(known[stay], cpu, memory, limit))
            yield [
                _scene(size, owned, lent_to)
                for size, owned, lent_to in zip(capacity.tolist(), prod.tolist(), pods, strict=True)
            ]

    def _sums(self, machine: NDArray[np.intp], usage: Ints) -> Ints:
        nodes = len(self.history.nodes)
        return np.column_stack([np.bincount(machine, usage[:, place], nodes) for place in (0, 1)]).astype(np.int64)


def _scene(capacity: Sequence[int], prod: Sequence[int], pods: Sequence[PodDemand]) -> UsageScene | None:
    """Returns None for an absent node, which has no capacity."""
    if not capacity[0]:
        return None
    has_memory = capacity[1] > 0
    return UsageScene(
        capacity_milli=capacity[0],
        capacity_bytes=capacity[1] if has_memory else None,
        room_milli=capacity[0],
        prod_milli=prod[0],
        rest_milli=0,
        rest_bytes=prod[1] if has_memory else None,
        pods=pods,
    )


def _pod(uid: str, cpu_milli: int, memory_bytes: int) -> Pod:
    return Pod(
        uid=uid,
        name=uid,
        namespace="default",
        workload=uid,
        tier=Tier.BATCH,
        qos=QoSClass.BE,
        priority=DEFAULT_PRIORITY[Tier.BATCH],
        request=Resources(cpu_milli, memory_bytes),
        started_at=BEGINNING,
    )


def _drawn(placed: Placed, layout: BatchLayout) -> NDArray[np.bool_]:
    """Returns (series,) whether each series is batch."""
    series = placed.any_trace.series
    count = min(series - 1, max(1, round((layout.share or 0.0) * series)))
    found = np.zeros(series, bool)
    found[np.random.default_rng(layout.seed).permutation(series)[:count]] = True
    return found


def _amounts(now: Now) -> Ints:
    """Returns (members, 2) the usage."""
    found = np.zeros((len(next(iter(now.values())).usage), len(PLACES)), np.int64)
    for each, moment in now.items():
        found[:, PLACES[each]] = np.ceil(moment.usage)
    return found


def squeezed(placed: Placed, layout: BatchLayout) -> Placed:
    """Divides the capacity of the nodes by the overcommit. Raises InvalidInput if the trace does not allow a share."""
    if layout.share is not None and placed.any_trace.series < 2:
        raise InvalidInput("--batch: a trace of one series cannot be shared; give `fill`", field="batch")
    if layout.share is not None and placed.any_trace.whole_machines and len(placed.nodes) == placed.any_trace.series:
        raise InvalidInput(
            "--batch: each series of this trace is a whole machine and cannot be batch; give `fill`, or place several "
            "series on a node with --vms-per-node",
            field="batch",
        )
    if layout.overcommit == 1:
        return placed
    return replace(placed, capacity=np.ceil(placed.capacity / layout.overcommit).astype(np.int64))
