"""Whatever dies whenever: the models end bit for bit as if nothing had happened, and nothing is told twice."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Unavailable
from slackwater.model.quantities import Resources
from slackwater.prediction.adapters.memory import MemoryPredictionStore
from slackwater.prediction.domain.peaks import PeakSettings
from slackwater.prediction.domain.series import ModelSettings
from slackwater.prediction.domain.snapshot import encode
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.state import LivingState, PredictionPolicy
from slackwater.testing.clock import FakeClock
from slackwater.testing.windows import FIRST_NUMBER, START, event_id, window

POLICY = PredictionPolicy(ModelSettings(pod_retention_seconds=180), PeakSettings(min_windows=3))


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
    """One process: how many batches it gets, how large, when it keeps a snapshot, and how it ends."""

    batches: int
    size: int
    snapshot_every: int
    dies_at: int
    how: str
    corrupts: bool


lives = st.builds(
    Life,
    batches=st.integers(1, 6),
    size=st.integers(1, 5),
    snapshot_every=st.integers(1, 4),
    dies_at=st.integers(1, 8),
    how=st.sampled_from(["before", "inside", "after", "away", "never"]),
    corrupts=st.booleans(),
)
histories = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 15),
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


async def live(store: MortalStore, stream: list[Event[UsageWindowed]], life: Life) -> None:
    """A process from start to its end; it may be killed at any transaction."""
    living = await started(store)
    for number in range(life.batches):
        begin = living.position
        batch = [(begin + n + 1, event) for n, event in enumerate(stream[begin : begin + life.size])]
        try:
            await fold_windows(living, FakeClock(), batch)
        except Unavailable:
            await fold_windows(living, FakeClock(), batch)  # delivered again
        if number % life.snapshot_every == 0:
            try:
                await living.snapshot()
            except Unavailable:
                continue


async def undisturbed(stream: list[Event[UsageWindowed]]) -> tuple[LivingState, MemoryPredictionStore]:
    store = MemoryPredictionStore()
    living = await started(store)
    await fold_windows(living, FakeClock(), list(enumerate(stream, start=1)))
    return living, store


async def tell_the_story(stream: list[Event[UsageWindowed]], story: list[Life]) -> tuple[LivingState, MortalStore]:
    store = MortalStore()
    for life in story:
        store.set_fate(life.dies_at, life.how)
        with suppress(Killed):
            await live(store, stream, life)
        kept = store.committed.snapshots
        if life.corrupts and len(kept) > 1:
            kept[0] = replace(kept[0], body=kept[0].body[:-1] + bytes([kept[0].body[-1] ^ 1]))
    store.fate = None
    living = await started(store)
    rest = list(enumerate(stream, start=1))[living.position :]
    await fold_windows(living, FakeClock(), rest)
    return living, store


@settings(max_examples=150, deadline=None)
@given(histories, st.lists(lives, max_size=4))
def test_after_any_kills_state_and_events_equal_those_of_an_undisturbed_run(
    history: list[tuple[str, int, dict[str, int], int | None]], story: list[Life]
) -> None:
    async def run() -> None:
        stream = stream_of(history)
        expected, expected_store = await undisturbed(stream)
        living, store = await tell_the_story(stream, story)
        assert encode(living.models, 0) == encode(expected.models, 0)
        assert [event.id for event in store.outbox] == [event.id for event in expected_store.outbox]
        assert store.outbox == expected_store.outbox

    asyncio.run(run())


async def test_a_corrupt_snapshot_is_reported_and_the_one_before_is_used() -> None:
    store = MemoryPredictionStore()
    living = await started(store)
    for position in (1, 2):
        await fold_windows(living, FakeClock(), [(position, window("a", position, {"p": 500}))])
        await living.snapshot()
    newest, older = store.committed.snapshots[living.partition]
    store.committed.snapshots[living.partition] = (replace(newest, checksum="0" * 64), older)
    again = LivingState(store, POLICY)
    restored = await again.restore()
    assert restored.position == 1
    assert "checksum" in restored.refused[0]


async def test_an_unchanged_state_is_not_kept_again() -> None:
    living = await started(MemoryPredictionStore())
    await fold_windows(living, FakeClock(), [(1, window("a", 1, {"p": 500}))])
    assert await living.snapshot()
    assert not await living.snapshot()


async def test_predictions_owed_while_the_store_was_away_go_with_the_next_snapshot() -> None:
    store = MortalStore()
    living = await started(store)
    store.set_fate(1, "away")
    with pytest.raises(Unavailable):
        await fold_windows(living, FakeClock(), [(1, window("a", 1, {"p": 500}))])
    assert store.outbox == []
    await living.snapshot()
    assert len(store.outbox) == 3


async def test_each_window_tells_one_peak_and_two_decisions_that_repeat_themselves() -> None:
    store = MemoryPredictionStore()
    await _described(store)
    living = await started(store)
    for number in range(1, 6):
        await fold_windows(living, FakeClock(), [(number, window("a", number, {"p": 500, "q": 800}))])
    peaks = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    records = [event.data.record for event in store.outbox if isinstance(event.data, DecisionRecorded)]
    assert [peak.samples for peak in peaks] == [1, 2, 3, 4, 5]
    assert peaks[1].cold_start_share == 1.0
    assert peaks[1].prod_peak.cpu_milli == 4000  # two requests stand in
    assert peaks[2].cold_start_share == 0.0
    assert 1430 <= peaks[2].prod_peak.cpu_milli <= 1430 * 1.06 + 28
    assert peaks[2].prod_reclaimable.cpu_milli > 1500
    assert {record.subject for record in records} == {"prod-cpu-peak", "prod-memory-peak"}
    assert len(records) == 10
    for record in records:
        module, name = record.replay.function.split(":")
        assert getattr(importlib.import_module(module), name)(**record.replay.arguments) == record.result
        assert record.trigger_event_id == event_id(
            "usage.windowed", "a", int(record.inputs[0].value or 0) - FIRST_NUMBER
        )


async def _described(store: MemoryPredictionStore) -> None:
    async with store.begin() as transaction:
        await transaction.describe("a", Resources(8000, 2**34), START)
