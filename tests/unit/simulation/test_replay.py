"""A history under several strategies: what must hold of any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_histories import Silent, write_trace

from slackwater.offers.closed_loop import Period
from slackwater.offers.strategy import MidMode, Strategy
from slackwater.simulation.adapters.trace_history import TraceHistory, TraceLayout, both, placed
from slackwater.simulation.domain.tally import Figures
from slackwater.simulation.usecases.replay import Variant, replay
from slackwater.traces.options import TraceFormat, TraceResource

AT_ONCE = {"diff_threshold": 1e-9, "rise_windows": 1}
"""Whatever is computed is told: what a strategy offers depends on nothing that was before."""


@dataclass(frozen=True)
class PredictedOnce(TraceHistory):
    """Keeps its periods. Four fifths of a replay are the predictions, which no strategy changes."""

    @cached_property
    def kept(self) -> list[Period]:
        return list(super().periods())

    def periods(self) -> Iterator[Period]:
        return iter(self.kept)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> TraceHistory:
    path = write_trace(tmp_path_factory.mktemp("trace") / "usage.csv", hours=30)
    traces = both(path, TraceFormat.CSV, tuple(TraceResource))
    return PredictedOnce(placed(traces, TraceLayout(per_node=3)), "max", 0, traces[TraceResource.CPU].cells)


def figures(history: TraceHistory, *strategies: Strategy) -> list[list[Figures]]:
    variants = [Variant(f"v{number}", [strategy], [{}]) for number, strategy in enumerate(strategies)]
    return [[one.tally.figures(place) for place in (0, 1)] for one in replay(history, variants, Silent())]


def test_the_same_strategy_on_both_sides_gives_the_same_figures(history: TraceHistory) -> None:
    one, same = figures(history, Strategy(), Strategy())
    assert one == same
    assert one[0].batch_hours > 0
    assert one[1].batch_hours > 0


def test_a_replay_is_the_same_every_time(history: TraceHistory) -> None:
    predicted_again = TraceHistory(history.placed, history.model, history.first, history.stop)
    assert figures(history, Strategy()) == figures(predicted_again, Strategy())


@settings(max_examples=5, deadline=None)
@given(st.integers(10, 100), st.integers(0, 40))
def test_a_harder_margin_never_lends_more_nor_exceeds_longer(history: TraceHistory, percent: int, more: int) -> None:
    soft, hard = figures(
        history,
        *(
            Strategy(cpu_reclaim_threshold_percent=each, memory_reclaim_threshold_percent=each, **AT_ONCE)
            for each in (percent + more, percent)
        ),
    )
    for place in (0, 1):
        assert hard[place].reclaimed_hours <= soft[place].reclaimed_hours + 1e-9
        assert hard[place].exceeded_minutes <= soft[place].exceeded_minutes


def test_what_mid_is_offered_is_not_offered_to_batch_as_well(history: TraceHistory) -> None:
    without, with_mid = figures(history, Strategy(**AT_ONCE), Strategy(mid_mode=MidMode.DYNAMIC, **AT_ONCE))
    assert with_mid[0].mid_hours > 0
    assert with_mid[0].reclaimed_hours <= without[0].reclaimed_hours + 1e-6


def test_a_strategy_that_is_off_lends_nothing_and_is_never_too_much(history: TraceHistory) -> None:
    (off,) = figures(history, Strategy(enabled=False))
    assert [one.reclaimed_hours for one in off] == [0, 0]
    assert [one.exceeded_minutes for one in off] == [0, 0]


def test_each_node_follows_its_own_strategy(history: TraceHistory) -> None:
    bold, careful = Strategy(cpu_reclaim_threshold_percent=90), Strategy(cpu_reclaim_threshold_percent=40)
    mixed = Variant("mixed", [bold, careful], [{}, {}], which=np.array([1, 0]))
    alone = [Variant("bold", [bold], [{}]), Variant("careful", [careful], [{}])]
    of_mixed, of_bold, of_careful = replay(history, [mixed, *alone], Silent())

    sums = [one.tally.reclaimed_hours for one in (of_mixed, of_bold, of_careful)]
    assert sums[0][0].tolist() == sums[2][0].tolist()
    assert sums[0][1].tolist() == sums[1][1].tolist()


def test_what_is_before_the_first_day_that_counts_is_learned_from_only(history: TraceHistory) -> None:
    later = TraceHistory(history.placed, history.model, 200, history.stop)
    (all_of_it,), (rest,) = figures(history, Strategy()), figures(later, Strategy())
    assert rest[0].node_hours == pytest.approx(all_of_it[0].node_hours * (1 - 200 / history.stop))
    assert 0 < rest[0].batch_hours < all_of_it[0].batch_hours


def test_one_resource_alone_is_decided_as_with_the_other(history: TraceHistory) -> None:
    cpu = {TraceResource.CPU: history.placed.traces[TraceResource.CPU]}
    only = TraceHistory(placed(cpu, TraceLayout(per_node=3)), history.model, 0, history.stop)
    (whole,), (part,) = figures(history, Strategy()), figures(only, Strategy())
    assert part[0] == whole[0]
    assert part[1].capacity_hours == 0
    assert part[1].reclaimed_hours == 0


def test_a_node_never_has_less_than_its_pods_were_given(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "usage.csv", hours=26)
    traces = both(path, TraceFormat.CSV, tuple(TraceResource))
    on_nodes = placed(traces, TraceLayout(per_node=2, churn_days=0.3))
    history = TraceHistory(on_nodes, "max", 0, traces[TraceResource.CPU].cells)
    for period in history.periods():
        assert (period.prod <= period.known.capacity).all()
        assert (period.known.prod_peak >= 0).all()


def with_a_hole(folder: Path, *, filled: bool = False) -> TraceHistory:
    """36 hours of rows, of which a day in the middle is missing (or said to be idle)."""
    path, begin = folder / "hole.csv", 1_772_409_600
    write_trace(path, hours=36)
    head, *lines = path.read_text().splitlines()
    outside = [line for line in lines if not 6 <= (int(line.split(",")[0]) - begin) // 3600 < 30]
    path.write_text("\n".join([head, *outside]) + "\n")
    traces = both(path, TraceFormat.CSV, tuple(TraceResource))
    on_nodes = placed(traces, TraceLayout(per_node=3))
    on_nodes = replace(on_nodes, there=None) if filled else on_nodes
    return TraceHistory(on_nodes, "max", 0, traces[TraceResource.CPU].cells)


def test_hours_in_which_nothing_was_recorded_are_not_lent(tmp_path: Path) -> None:
    """A recorder that was off is no idle machine."""
    history = with_a_hole(tmp_path)
    assert any(note.startswith("24.9 hours have no records") for note in history.notes)
    ((known, _),) = figures(history, Strategy(cpu_reclaim_threshold_percent=100))
    ((idle, _),) = figures(with_a_hole(tmp_path, filled=True), Strategy(cpu_reclaim_threshold_percent=100))
    assert known.node_hours == pytest.approx(2 * (history.steps / 12 - 24.92), abs=0.1)
    assert known.prod_hours == pytest.approx(idle.prod_hours), "no pod used anything in between"
    assert known.reclaimed_share < idle.reclaimed_share / 2


def test_what_was_mended_in_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    text = write_trace(path, hours=26, memory=False).read_text().splitlines()
    bad = ["1772409600,other,app,-1,0", *(line.rsplit(",", 2)[0] + ",9999,2000" for line in text[1:3])]
    path.write_text("\n".join([*text, *bad]) + "\n")
    traces = both(path, TraceFormat.CSV, [TraceResource.CPU])
    notes = TraceHistory(placed(traces, TraceLayout(per_node=3)), "max", 0, 1).notes
    assert notes[2:] == (
        "cpu: 1 of 159 rows are left out: not a number, negative, or with a limit of 0",
        "cpu: 2 of 159 rows exceed their limit and count with it",
        "cpu: 1 series had no usable row and were left out",
        "cpu: 91% of the cells had no sample and were filled",
    )
