from __future__ import annotations

import numpy as np
import pytest
from small_models import LAST, LIMITS, SaysLast, SaysNonsense, Silent, contender, no_time, trace_of

from slackwater.backtest.domain.span import JudgedSpan, judged_span
from slackwater.backtest.usecases.compare import ModelComparison, PlacementLayout, compare
from slackwater.backtest.usecases.judge import ORACLE, judge, moments
from slackwater.model.errors import InvalidInput
from slackwater.peaks.port import PeakModel
from slackwater.traces.placement import Stays
from slackwater.traces.trace import DAY_CELLS, Trace


def random_trace(days: float = 3, series: int = 6, seed: int = 1, *, whole: bool = False) -> Trace:
    usage = np.random.default_rng(seed).gamma(2.0, 10.0, (round(days * DAY_CELLS), series)).clip(0, 100)
    return trace_of(usage, whole_machines=whole)


def compared(trace: Trace, layout: PlacementLayout, *models: object, filmed: bool = False) -> ModelComparison:
    span = judged_span(trace, "1", None)
    return compare(trace, layout, models, span, watch=Silent(), stopwatch=no_time, filmed=filmed)  # type: ignore[arg-type] # contenders


STILL = PlacementLayout(per_machine=3, churn_days=None, seeds=2, wrong_keys=0)
CHURN = PlacementLayout(per_machine=3, churn_days=0.5, seeds=2, wrong_keys=0)


def test_one_machine_by_hand() -> None:
    """Two pods; a day of 10 and 20, one cell of 30 and 20 in the middle of the second day, then 5 and 5."""
    usage = np.tile([10.0, 20.0], (3 * DAY_CELLS, 1))
    surge = DAY_CELLS + 100
    usage[surge] = 30, 20
    usage[surge + 1 :] = 5, 5
    trace = trace_of(usage)
    stays = Stays(np.zeros(2, np.intp), np.arange(2), np.zeros(2, np.intp), np.full(2, trace.cells), 1)
    watch = Silent()
    judged = judge(
        trace,
        stays,
        [LAST, LIMITS],
        JudgedSpan(DAY_CELLS, 2 * DAY_CELLS),
        keys=np.arange(2),
        watch=watch,
        stopwatch=no_time,
        filmed=True,
    )
    last, limits, oracle = (judged.scores[name] for name in ("last", "limits", ORACLE))
    # Before the surge 50 come and 30 are predicted; at the surge itself 50 are predicted and 10 come.
    assert last.violation.tolist() == [100 / DAY_CELLS]
    assert last.severity[0] == pytest.approx(100 / DAY_CELLS * 20 / 50)
    assert last.severity_when_violated == pytest.approx(0.4)
    assert last.cell_savings == pytest.approx(1 - (100 * 30 + 50 + 187 * 10) / (288 * 200))
    assert (limits.violation[0], limits.severity[0], limits.cell_savings) == (0, 0, 0)
    assert (oracle.violation[0], oracle.severity[0]) == (0, 0)
    assert oracle.cell_savings == pytest.approx(1 - (100 * 50 + 188 * 10) / (288 * 200))
    assert watch.done == 2 * DAY_CELLS
    assert judged.film is not None
    assert judged.film.usage[[0, 100, 101], 0].tolist() == [30, 50, 10]
    assert judged.film.peaks[ORACLE][[0, 99, 100], 0].tolist() == [50, 50, 10]
    assert judged.film.peaks["last"][[0, 100, 101], 0].tolist() == [30, 50, 10]


def test_models_fold_every_cell_from_the_start_and_predict_after_it() -> None:
    heard = SaysLast()
    trace = random_trace(series=2)
    span = JudgedSpan(DAY_CELLS, DAY_CELLS + 3)
    layout = PlacementLayout(per_machine=2, churn_days=None, seeds=1, wrong_keys=0)
    compare(trace, layout, [contender("last", lambda: heard)], span, watch=Silent(), stopwatch=no_time)
    assert [at for at, _, _ in heard.heard] == [trace.end_of(cell) for cell in range(DAY_CELLS + 3)]


@pytest.mark.parametrize("layout", [STILL, CHURN], ids=["still", "churn"])
def test_the_oracle_has_no_violations_and_a_model_of_the_limits_no_savings(layout: PlacementLayout) -> None:
    oracle, limits = compared(random_trace(), layout, LIMITS).judgements
    for judgement in (oracle, limits):
        assert judgement.verdict.violation.greatest == 0
        assert judgement.verdict.severity.greatest == 0
    assert limits.verdict.savings.greatest == pytest.approx(0, abs=1e-12)
    assert 0 < oracle.verdict.savings.mean < 1
    assert len(limits.placements) == 2


@pytest.mark.parametrize("layout", [STILL, CHURN], ids=["still", "churn"])
def test_more_margin_has_fewer_violations_and_saves_less(layout: PlacementLayout) -> None:
    def times(factor: float) -> object:
        return contender(f"x{factor}", lambda: SaysLast(factor))

    _, *found = compared(random_trace(), layout, *(times(factor) for factor in (1.0, 1.5, 2.5, 5.0))).judgements
    risks = [one.verdict.violation.mean for one in found]
    savings = [one.verdict.savings.mean for one in found]
    assert risks == sorted(risks, reverse=True)
    assert savings == sorted(savings, reverse=True)
    assert risks[0] > risks[-1]


def test_every_placement_gets_a_new_model_and_the_same_command_the_same_figures() -> None:
    made: list[PeakModel] = []

    def make() -> PeakModel:
        made.append(SaysLast())
        return made[-1]

    first = compared(random_trace(), CHURN, contender("last", make))
    assert len(made) == 2
    assert made[0] is not made[1]
    again = compared(random_trace(), CHURN, contender("last", make))
    assert [one.verdict for one in first.judgements] == [one.verdict for one in again.judgements]


def test_workload_and_limits_survive_a_move_and_the_pods_number_does_not() -> None:
    trace = trace_of(np.ones((60, 1)))
    stays = Stays(np.array([0, 1]), np.array([0, 0]), np.array([0, 30]), np.array([30, 60]), 2)
    seen = [moment.members for moment in moments(trace, stays, 60, np.arange(1))]
    assert [int(one.series[0]) for one in seen] == [0] * 30 + [1] * 30
    assert {int(one.workload[0]) for one in seen} == {0}
    assert seen[0].capacity.tolist() == [100, 0]
    assert seen[30].capacity.tolist() == [0, 100]


def test_wrong_keys_are_used_for_predictions_and_never_learned_with() -> None:
    trace = trace_of(np.ones((10, 2)))
    stays = Stays(np.zeros(2, np.intp), np.arange(2), np.zeros(2, np.intp), np.full(2, 10), 1)
    for moment in moments(trace, stays, 10, np.array([1, 0])):
        assert moment.members.workload.tolist() == [0, 1]
        assert moment.mistaken.workload.tolist() == [1, 0]
        assert moment.mistaken.series.tolist() == moment.members.series.tolist()


def test_wrong_keys_make_a_keyed_model_worse() -> None:
    steady = np.tile([90.0, 1.0, 80.0, 2.0, 70.0, 3.0], (3 * DAY_CELLS, 1))
    right = compared(trace_of(steady), STILL, LAST).judgements[1]
    wrong_layout = PlacementLayout(per_machine=3, churn_days=None, seeds=2, wrong_keys=0.5)
    wrong = compared(trace_of(steady), wrong_layout, LAST).judgements[1]
    assert right.verdict.violation.mean == 0
    assert wrong.verdict.violation.mean > 0


def test_whole_machines_are_judged_once_each_by_itself() -> None:
    layout = PlacementLayout(per_machine=1, churn_days=None, seeds=5, wrong_keys=0)
    found = compared(random_trace(series=4, whole=True), layout, LAST, filmed=True)
    assert found.machines == 4
    assert len(found.judgements[1].placements) == 1
    assert found.film is not None
    assert found.film.usage.shape == (DAY_CELLS, 4)


def test_a_model_that_answers_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="broken at cell 288: a predicted peak is not a number"):
        compared(random_trace(), STILL, contender("broken", SaysNonsense))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("vms-per-node", (0, None, 1, 0.0)),
        ("seeds", (20, None, 0, 0.0)),
        ("wrong-keys", (20, None, 1, 1.5)),
        ("churn", (1, 2.0, 1, 0.0)),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(field: str, values: tuple[int, float | None, int, float]) -> None:
    with pytest.raises(InvalidInput, match=f"--{field}"):
        PlacementLayout(*values)


def test_without_a_word_long_traces_warm_up_for_eight_days_and_short_ones_for_two() -> None:
    month, days = trace_of(np.ones((30 * DAY_CELLS, 1))), trace_of(np.ones((4 * DAY_CELLS, 1)))
    assert judged_span(month, None, None) == JudgedSpan(8 * DAY_CELLS, 29 * DAY_CELLS)
    assert judged_span(days, None, None) == JudgedSpan(2 * DAY_CELLS, 3 * DAY_CELLS)


def test_days_and_dates_choose_what_is_judged() -> None:
    trace = trace_of(np.ones((4 * DAY_CELLS, 1)))  # begins at 1970-01-04 11:20
    assert judged_span(trace, "0.5", "2") == JudgedSpan(DAY_CELLS // 2, 2 * DAY_CELLS)
    assert judged_span(trace, "1970-01-05T11:20", "1970-01-06T11:20:00Z") == JudgedSpan(DAY_CELLS, 2 * DAY_CELLS)
    assert judged_span(trace, "1", "4") == JudgedSpan(DAY_CELLS, 3 * DAY_CELLS), "the last day has no next 24 hours"


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("soon", None, "--from: 'soon' is not allowed"),
        ("9", None, "--from: 9 is outside"),
        ("-1", None, "--from: -1 is outside"),
        (None, "1969-01-01", "--to: 1969-01-01 is outside"),
        ("3", None, "nothing to evaluate"),
        ("2", "1", "nothing to evaluate"),
        ("inf", None, "--from: 'inf' is not a day"),
        ("nan", None, "--from: 'nan' is not allowed"),
    ],
)
def test_a_span_that_cannot_be_is_an_error_that_says_why(since: str | None, until: str | None, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        judged_span(trace_of(np.ones((4 * DAY_CELLS, 1))), since, until)
