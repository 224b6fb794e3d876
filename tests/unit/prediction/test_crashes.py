"""After any crash the state is bit for bit that of an undisturbed run, and nothing is published twice."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prediction_memory import MemoryPredictionStore
from tests.support.clock import FakeClock
from tests.support.windows import START, event_id, window

from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.snapshot import encode
from slackwater.prediction.domain.state import Keeping
from slackwater.prediction.ports import DescribedNode
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy
from slackwater.prediction.usecases.publish_predictions import publish_predictions

WARM = ModelChoice(settings={"cold_hours": 1, "young_hours": 0})
CADENCE = Cadence(histogram_update_seconds=120, check_seconds=1, reporting_seconds=10)
POLICIES = PoolPolicies(PoolPolicy(cpu=WARM, memory=WARM, cadence=CADENCE, generation=3))
POLICY = PredictionPolicy(model_of, POLICIES, Keeping(pod_seconds=180))


class Killed(BaseException):
    """The process is gone; nothing after it runs."""


class MortalStore(MemoryPredictionStore):
    """Dies, or is away, at the n-th transaction: before its body, before its commit, or right after it."""

    def __init__(self) -> None:
        super().__init__()
        self.fate: tuple[int, str] | None = None
        self._count = 0

    def set_fate(self, after: int, how: str) -> None:
        self.fate, self._count = (after, how), 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        self._count += 1
        how = self.fate[1] if self.fate and self.fate[0] == self._count else ""
        if how == "away":
            raise Unavailable("store is away")
        if how == "before":
            raise Killed
        async with super().begin() as transaction:
            yield transaction
            if how == "inside":
                raise Killed
        if how == "after":
            raise Killed


@dataclass(frozen=True)
class Life:
    """One process: how many batches it gets, how large, when it looks and keeps a snapshot, and how it ends."""

    batches: int
    size: int
    look_every: int
    snapshot_every: int
    dies_at: int
    how: str
    corrupts: bool


lives = st.builds(
    Life,
    batches=st.integers(1, 6),
    size=st.integers(1, 5),
    look_every=st.integers(1, 3),
    snapshot_every=st.integers(1, 4),
    dies_at=st.integers(1, 8),
    how=st.sampled_from(["before", "inside", "after", "away", "never"]),
    corrupts=st.booleans(),
)
histories = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 15) | st.integers(170, 185),
        st.dictionaries(st.sampled_from("pqr"), st.integers(0, 5000)),
        st.none() | st.integers(0, 900),
    ),
    min_size=1,
    max_size=20,
)


def stream_of(history: Sequence[tuple[str, int, dict[str, int], int | None]]) -> list[Event[UsageWindowed]]:
    return [window(node, number, pods, system=system) for node, number, pods, system in history]


async def started(store: MemoryPredictionStore) -> LivingState:
    living = LivingState(store, POLICY)
    await living.restore()
    return living


async def live(store: MortalStore, stream: list[Event[UsageWindowed]], life: Life, clock: FakeClock) -> None:
    """A process from start to its end; it may be killed at any transaction."""
    living = await started(store)
    for number in range(life.batches):
        begin = living.position
        batch = [(begin + n + 1, event) for n, event in enumerate(stream[begin : begin + life.size])]
        await fold_windows(living, batch)
        await clock.advance(12)
        with suppress(Unavailable):
            if number % life.look_every == 0:
                await publish_predictions(living, clock)
            if number % life.snapshot_every == 0:
                await living.snapshot()


async def undisturbed(stream: list[Event[UsageWindowed]]) -> LivingState:
    living = await started(MemoryPredictionStore())
    await fold_windows(living, list(enumerate(stream, start=1)))
    return living


async def tell_the_story(stream: list[Event[UsageWindowed]], story: list[Life]) -> tuple[LivingState, MortalStore]:
    store, clock = MortalStore(), FakeClock()
    for life in story:
        store.set_fate(life.dies_at, life.how)
        with suppress(Killed):
            await live(store, stream, life, clock)
        kept = store.kept_snapshots
        if life.corrupts and len(kept.get(0, ())) > 1:
            newest, *older = kept[0]
            kept[0] = (replace(newest, body=newest.body[:-1] + bytes([newest.body[-1] ^ 1])), *older)
    store.fate = None
    living = await started(store)
    rest = list(enumerate(stream, start=1))[living.position :]
    await fold_windows(living, rest)
    await clock.advance(60)
    await publish_predictions(living, clock)
    return living, store


@settings(max_examples=60, deadline=None)
@given(histories, st.lists(lives, max_size=4))
def test_after_any_kills_the_state_equals_that_of_an_undisturbed_run_and_nothing_is_published_twice(
    history: list[tuple[str, int, dict[str, int], int | None]], story: list[Life]
) -> None:
    async def run() -> None:
        stream = stream_of(history)
        expected = await undisturbed(stream)
        living, store = await tell_the_story(stream, story)
        assert encode(living.models, 0) == encode(expected.models, 0)
        ids = [event.id for event in store.outbox]
        assert len(set(ids)) == len(ids)
        last = {event.data.node: event.data for event in store.outbox if isinstance(event.data, PeakPredicted)}
        silent = expected.models.latest_seconds - POLICY.keeping.pod_seconds
        nodes = (node for node in expected.models.nodes.values() if node.taken.end >= silent)
        folded = {node.name: node.folded.number for node in nodes if node.folded}
        assert folded.items() <= {name: said.window_number for name, said in last.items()}.items()

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(histories, st.lists(st.integers(0, 20), max_size=6))
def test_how_the_stream_is_cut_into_batches_and_looked_at_changes_nothing(
    history: list[tuple[str, int, dict[str, int], int | None]], cuts: list[int]
) -> None:
    async def run() -> None:
        stream = stream_of(history)
        living, clock = await started(MemoryPredictionStore()), FakeClock()
        pairs = list(enumerate(stream, start=1))
        edges = [0, *sorted(cuts), len(pairs)]
        for first, after in pairwise(edges):
            await fold_windows(living, pairs[first:after])
            await clock.advance(7)
            await publish_predictions(living, clock)
        assert encode(living.models, 0) == encode((await undisturbed(stream)).models, 0)

    asyncio.run(run())


async def test_a_corrupt_snapshot_is_reported_and_the_one_before_is_used() -> None:
    store = MemoryPredictionStore()
    living = await started(store)
    for position in (1, 2):
        await fold_windows(living, [(position, window("a", position, {"p": 500}))])
        await living.snapshot()
    newest, older = store.kept_snapshots[living.partition]
    store.kept_snapshots[living.partition] = (replace(newest, checksum="0" * 64), older)
    again = LivingState(store, POLICY)
    restored = await again.restore()
    assert restored.position == 1
    assert "checksum" in restored.refused[0]


async def test_a_snapshot_of_an_older_version_is_refused_and_history_is_replayed() -> None:
    store = MemoryPredictionStore()
    living = await started(store)
    await fold_windows(living, [(1, window("a", 1, {"p": 500}))])
    await living.snapshot()
    store.kept_snapshots[0] = tuple(replace(one, version=2) for one in store.kept_snapshots[0])
    restored = await LivingState(store, POLICY).restore()
    assert restored.position == 0
    assert "version is 2" in restored.refused[0]


async def test_an_unchanged_state_is_not_kept_again() -> None:
    living = await started(MemoryPredictionStore())
    await fold_windows(living, [(1, window("a", 1, {"p": 500}))])
    assert await living.snapshot()
    assert not await living.snapshot()


async def test_predictions_that_could_not_be_stored_are_made_in_the_next_check() -> None:
    store, clock = MortalStore(), FakeClock()
    living = await started(store)
    store.set_fate(1, "away")
    await fold_windows(living, [(1, window("a", 1, {"p": 500})), (2, window("a", 4, {"p": 500}))])
    with pytest.raises(Unavailable):
        await publish_predictions(living, clock)
    assert store.outbox == []
    assert await publish_predictions(living, clock) == {"first": 1}
    assert len(store.outbox) == 3


async def test_each_prediction_comes_with_two_decisions_that_repeat_themselves() -> None:
    store, clock = MemoryPredictionStore(), FakeClock()
    async with store.begin() as transaction:
        await transaction.describe("a", DescribedNode(Resources(8000, 2**34), "default"), START)
    living = await started(store)
    for number in range(1, 6):
        await fold_windows(living, [(number, window("a", 2 * number, {"p": 500, "q": 800}))])
        await clock.advance(20)
        await publish_predictions(living, clock)
    peaks = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    records = [event.data.record for event in store.outbox if isinstance(event.data, DecisionRecorded)]
    assert [peak.samples for peak in peaks] == [1, 2, 3, 4]
    assert [peak.cause for peak in peaks] == ["first", "report", "report", "report"]
    assert peaks[-1].cold_start_share == 0.0
    assert 1300 <= peaks[-1].prod_peak.cpu_milli <= 2000
    assert sum(pod.peak.cpu_milli for pod in peaks[-1].pods) == pytest.approx(peaks[-1].prod_peak.cpu_milli, abs=3)
    assert peaks[-1].prod_reclaimable.cpu_milli == 4000 - peaks[-1].prod_peak.cpu_milli
    assert {record.subject for record in records} == {"prod-cpu-peak", "prod-memory-peak"}
    for record in records:
        module, name = record.replay.function.split(":")
        arguments = json.loads(json.dumps(record.replay.arguments))
        assert getattr(importlib.import_module(module), name)(**arguments) == record.result
    assert [record.trigger_event_id for record in records[::2]] == [
        event_id("usage.windowed", "a", 2 * number) for number in range(1, 5)
    ]


async def test_ids_of_predictions_do_not_follow_from_what_all_may_know_of_a_window() -> None:
    """An agent that published under the id of another node's prediction would take its place at the broker."""
    ids = list[str]()
    for _ in range(2):
        store = MemoryPredictionStore()
        living = await started(store)
        folded = [window("a", number, {"p": 500}).model_copy(update={"id": new_id()}) for number in (1, 4)]
        await fold_windows(living, list(enumerate(folded, start=1)))
        await publish_predictions(living, FakeClock())
        ids += [event.id for event in store.outbox]
    assert len(ids) == len(set(ids)) == 6
