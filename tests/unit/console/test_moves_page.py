"""The page of moves: stages in order, what holds jobs, how evenly nodes are loaded."""

from __future__ import annotations

import html
import math
import re
from datetime import timedelta

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.console.read_model import MemoryReadModel
from tests.support.story_moves import gain_record, moves

from slackwater.charts.load_chart import load_chart, load_frame
from slackwater.console.domain.moves import (
    BUCKETS,
    MeasuredLoad,
    MoveCount,
    PipelineStage,
    load_spread,
    move_gain,
    stage_of,
)
from slackwater.console.usecases.moves_page import MOST_JOBS, compare_loads, moves_page, stage_tiles
from slackwater.model.quantities import Resources
from slackwater.podmigration.jobs import MigrationPhase, MigrationStep

NOW = EPOCH + timedelta(hours=1)
STAGES = list(PipelineStage)


async def page(client: httpx2.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


async def test_the_page_shows_stages_holds_loads_and_jobs(told_client: httpx2.AsyncClient) -> None:
    text = await page(told_client, "/moves?span=15m")
    assert "Proposed 3 Arbitrated 1 Reserved 1 Evicting 2 1 await their replacement" in text
    assert "Ready 3 in 15m Failed 2 in 15m 1 aborted, 1 without replacement" in text
    assert "3 jobs wait for arbitration" in text
    assert "node edge-7 2 2 2 5 min workload unavailable shop/speech-of-low-resource-languages 1 1 1 2 min" in text
    assert re.search(r"CPU load of nodes 3 nodes that reported about \S+ and report now", text)
    assert re.search(r"Before \S+ % \S+ % \S+ % Now \S+ % \S+ % \S+ %", text)
    assert "shop/render-11 failed edge-7 edge-9" in text
    assert "Replacement pending (Timeout): the replacement was not ready within 300 s" in text
    assert "under way, waiting, then ended" in text
    assert "25.0 % 27.0 %" in text
    assert "20.0 % 8.0 %" in text
    assert "2 moves measured: 17.5 % in the mean, 22.5 % expected." in text


async def test_ended_jobs_leave_the_page_with_the_span(told: MemoryReadModel) -> None:
    view = await moves_page(told, EPOCH + timedelta(hours=10, minutes=20), "15m", "memory")
    assert [tile.jobs for tile in view.stages] == [3, 1, 1, 2, 0, 0]
    assert (view.jobs, len(view.rows), view.resource) == (7, 7, "memory")


async def test_without_moves_the_page_says_how_they_begin(model: MemoryReadModel) -> None:
    view = await moves_page(model, NOW, "never", "disk")
    assert (view.span, view.resource, view.jobs, view.rows, view.load.picture) == ("1h", "cpu", 0, [], None)


async def test_a_late_older_state_does_not_replace_a_newer_one(model: MemoryReadModel) -> None:
    events = [event.data for event in moves(NOW, 0)]
    await model.save_moves(events)
    await model.save_moves([each.model_copy(update={"step": "waiting", "changed_at": EPOCH}) for each in events])
    assert sum(count.jobs for count in await model.move_counts(EPOCH) if count.step == "waiting") == 3


async def test_more_jobs_than_rows_are_counted(model: MemoryReadModel) -> None:
    first = moves(NOW, 0)[0].data
    await model.save_moves([first.model_copy(update={"job": f"m{n}"}) for n in range(MOST_JOBS + 5)])
    view = await moves_page(model, NOW, "1h", "cpu")
    assert (len(view.rows), view.jobs, view.holds[0].jobs) == (MOST_JOBS, MOST_JOBS + 5, MOST_JOBS + 5)


def test_every_step_of_a_move_has_a_stage_and_steps_never_go_back() -> None:
    places = [
        STAGES.index(stage_of(step.value, "Running")) for step in MigrationStep if step is not MigrationStep.ENDED
    ]
    assert places == sorted(places)
    ends = {phase: stage_of("ended", phase.value) for phase in MigrationPhase}
    assert [phase for phase, stage in ends.items() if stage is PipelineStage.READY] == [MigrationPhase.SUCCEEDED]


@given(st.lists(st.tuples(st.sampled_from(MigrationStep), st.sampled_from(MigrationPhase), st.integers(0, 50))))
@settings(max_examples=25)
def test_every_job_is_in_one_stage(states: list[tuple[MigrationStep, MigrationPhase, int]]) -> None:
    counts = [MoveCount(step.value, phase.value, "", jobs) for step, phase, jobs in states]
    tiles = stage_tiles(counts)
    assert [tile.stage for tile in tiles] == STAGES
    assert sum(tile.jobs for tile in tiles) == sum(jobs for *_, jobs in states)


def test_a_record_without_figures_has_no_gain() -> None:
    record = gain_record("m", NOW, 0.8, 0.5, 0.25)
    found = move_gain(record)
    assert found is not None
    assert (found.expected, found.measured) == (0.25, 0.3)
    assert move_gain(record.model_copy(update={"inputs": record.inputs[:3]})) is None


@given(st.lists(st.floats(0, 1.2), min_size=1, max_size=30))
@settings(max_examples=25)
def test_the_spread_counts_each_node_once_and_moves_between_nodes_keep_the_mean(shares: list[float]) -> None:
    spread = load_spread(shares)
    assert (sum(spread.buckets), len(spread.buckets), spread.nodes) == (len(shares), BUCKETS, len(shares))
    assert spread.highest == max(shares)
    low, high = min(shares), max(shares)
    shift = (high - low) / 2
    evened = [share for share in shares if share not in (low, high)]
    if len(evened) == len(shares) - 2:
        after = load_spread([*evened, low + shift, high - shift])
        assert math.isclose(after.mean, spread.mean, abs_tol=1e-9)
        assert after.deviation <= spread.deviation + 1e-9


def test_only_nodes_that_reported_at_both_times_are_compared() -> None:
    def load(node: str, milli: int) -> MeasuredLoad:
        return MeasuredLoad(node, Resources(milli, 0), Resources(1000, 0))

    before, now = [load("a", 900), load("b", 100), load("gone", 990)], [load("a", 500), load("b", 500), load("new", 10)]
    found = compare_loads(before, now, "cpu", EPOCH)
    assert (found.before.nodes, found.now.nodes) == (2, 2)
    assert [found.before.deviation, found.now.deviation] == pytest.approx([0.4, 0.0])
    alone = compare_loads([], now, "cpu", EPOCH)
    assert (alone.before.nodes, alone.now.nodes) == (0, 3)
    assert MeasuredLoad("x", Resources(5, 5), Resources()).share("memory") == 0.0


counts = st.lists(st.integers(0, 10_000), min_size=BUCKETS, max_size=BUCKETS)


@given(counts, counts, st.floats(0, 1.3), st.sampled_from([1120.0, 340.0]))
@settings(max_examples=30)
def test_the_chart_stays_within_its_frame(before: list[int], after: list[int], mean: float, width: float) -> None:
    drawn = load_chart(load_frame(width), before, after, (mean, mean), "x")
    assert drawn.count('class="loads now"') == sum(count > 0 for count in after)
    assert all(0 <= float(x) <= width for x in re.findall(r' (?:x|x1|x2|width)="([^"]+)"', drawn))
    assert all(0 <= float(y) <= 190 for y in re.findall(r' (?:y|y1|y2|height)="([^"]+)"', drawn))
