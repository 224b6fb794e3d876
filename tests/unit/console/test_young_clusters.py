"""A chart of a young cluster begins with its first level and is as fine as its age allows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.domain.fleet import LEVEL_SECONDS, FleetLevel
from slackwater.console.usecases.overview import SPANS, kept_levels
from slackwater.console.usecases.pictures import LEAST_SPAN

NOW = EPOCH + timedelta(days=3)


async def levels_of(minutes: int) -> MemoryReadModel:
    model = MemoryReadModel()
    for step in range(minutes * 60 // LEVEL_SECONDS):
        at = NOW - timedelta(seconds=(step + 1) * LEVEL_SECONDS)
        await model.save_level(FleetLevel(at, nodes=1, silent=0), at)
    return model


@pytest.mark.parametrize("span", SPANS)
async def test_three_minutes_fill_the_chart_of_every_span(span: str) -> None:
    since, step, kept = await kept_levels(await levels_of(3), NOW, SPANS[span])
    assert NOW - since == LEAST_SPAN
    assert step == LEVEL_SECONDS
    assert len(kept) == 3 * 60 // LEVEL_SECONDS


@pytest.mark.parametrize("span", SPANS)
async def test_a_cluster_older_than_the_span_shows_the_whole_span(span: str) -> None:
    since, step, _ = await kept_levels(await levels_of(25 * 60), NOW, SPANS[span])
    assert NOW - since == timedelta(seconds=SPANS[span])
    assert step == max(LEVEL_SECONDS, SPANS[span] // 120)


async def test_without_levels_the_span_is_as_asked() -> None:
    since, _, kept = await kept_levels(MemoryReadModel(), NOW, 3600)
    assert (NOW - since, list(kept)) == (timedelta(hours=1), [])


@given(st.integers(1, 200), st.sampled_from(sorted(SPANS)))
def test_a_chart_never_begins_before_the_span_nor_leaves_out_a_level(minutes: int, span: str) -> None:

    async def both() -> None:
        model = await levels_of(minutes)
        since, step, kept = await kept_levels(model, NOW, SPANS[span])
        whole = await model.levels(NOW - timedelta(seconds=SPANS[span]), NOW, step)
        assert timedelta(seconds=SPANS[span]) >= NOW - since >= LEAST_SPAN
        assert sum(1 for _ in kept) >= sum(1 for level in whole if level.at >= since)

    asyncio.run(both())
