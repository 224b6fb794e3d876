"""What an assessment's recommendation is worth, which headroom it keeps, and the documents that apply it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from small_histories import write_trace
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.model.errors import InvalidInput
from slackwater.simulation.domain.risk import Choice, RatedChoice, advise, headroom_percent
from slackwater.simulation.domain.worth import MONTH_HOURS, Prices, worth_of
from slackwater.simulation.edge.assessment_report import AssessmentReport

AMOUNT = st.floats(0.001, 1e6)
SIZE = st.floats(1, 1000)


@pytest.mark.parametrize(("days", "percent"), [(0, 100), (1, 38), (7, 15), (8, 14), (14, 10), (60, 10)])
def test_the_headroom_by_hand(days: float, percent: int) -> None:
    assert headroom_percent(days) == percent


@given(st.floats(0, 400), st.floats(0, 400))
def test_more_history_never_needs_more_headroom_and_some_is_always_kept(one: float, other: float) -> None:
    assert headroom_percent(max(one, other)) <= headroom_percent(min(one, other))
    assert 10 <= headroom_percent(one) <= 100


def rated(percent: int, share: float) -> RatedChoice:
    return RatedChoice(Choice(percent, "m"), share, 1.0, None, None, 0.0, 0.0, 0.0, 1.0)


@given(st.lists(st.integers(0, 140), min_size=1, unique=True), st.integers(0, 100))
def test_a_recommendation_keeps_the_headroom_however_much_more_could_be_lent(
    percents: list[int], headroom: int
) -> None:
    judged = [rated(60, 0.06), *(rated(percent, percent / 100) for percent in percents if percent != 60)]
    advice = advise(judged, 0.001, headroom=headroom)
    assert advice is not None
    assert advice.choice.percent <= max(60, 100 - headroom)
    if any(percent > max(60, 100 - headroom) for percent in percents):
        assert f"leaves less than {headroom} % of a node free" in advice.reason


@given(AMOUNT, AMOUNT, SIZE, SIZE, st.floats(0.001, 10), st.floats(0.001, 10))
def test_nodes_need_both_resources_and_money_is_the_sum_of_both(
    cores: float, gib: float, node_cores: float, node_gib: float, core_hour: float, gib_hour: float
) -> None:
    worth = worth_of(cores, gib, node_cores, node_gib, Prices(core_hour, gib_hour))
    assert worth.nodes * node_cores <= cores * (1 + 1e-9)
    assert worth.nodes * node_gib <= gib * (1 + 1e-9)
    scarce, size = (cores, node_cores) if worth.limited_by == "cpu" else (gib, node_gib)
    assert worth.nodes == scarce / size
    assert worth.per_month == pytest.approx((cores * core_hour + gib * gib_hour) * MONTH_HOURS)
    by_node = worth_of(cores, gib, node_cores, node_gib, Prices(node_month=100.0))
    assert by_node.per_month == pytest.approx(100 * worth.nodes)


def test_without_a_fitting_price_no_money_is_named() -> None:
    assert worth_of(4.0, None, 2.0, 0.0, Prices(gib_hour=1.0)).per_month is None
    assert worth_of(4.0, None, 2.0, 0.0, Prices()).nodes == 2


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf])
def test_a_price_must_be_an_amount(price: float) -> None:
    with pytest.raises(InvalidInput, match="--price-core-hour"):
        Prices(core_hour=price)


def assess(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["assess", *map(str, arguments)])


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("worth") / "usage.csv", hours=80)


def test_the_report_has_worth_workloads_and_documents(trace: Path) -> None:
    done = assess("--trace", trace, "--vms-per-node", "3", "--model", "max", "--price-core-hour", "0.05", "-o", "json")
    assert done.exit_code == 0, done.output
    report = AssessmentReport.model_validate_json(done.stdout)
    assert report.cpu is not None
    assert report.worth is not None
    assert report.cpu.recommendation is not None
    (chosen,) = [one for one in report.cpu.choices if one.percent == report.cpu.recommendation.percent]
    cores = chosen.reclaimable_share * report.cpu.capacity / 1000
    assert report.worth.cores == pytest.approx(cores, abs=1e-3)
    assert report.worth.per_month == pytest.approx(cores * 0.05 * MONTH_HOURS, rel=1e-2)
    of_cpu = [one.cpu for one in report.workloads if one.cpu is not None]
    assert sum(one.requested for one in of_cpu) == pytest.approx(report.cpu.requested, abs=len(of_cpu))
    assert all(one.slack == one.requested - one.used.p95 for one in of_cpu)
    assert len({one.workload for one in report.workloads}) == len(report.workloads) > 1
    assert [one["metadata"]["name"] for one in report.documents] == ["default", "default"]
    assert [one["kind"] for one in report.documents] == ["ColocationStrategy", "PredictPolicy"]


def test_the_table_names_the_worth_and_the_workloads(trace: Path) -> None:
    done = assess("--trace", trace, "--vms-per-node", "3", "--model", "max", "--price-node-month", "300")
    assert done.exit_code == 0, done.output
    assert "a month at the given price" in done.stdout
    assert "WORKLOAD" in done.stdout
    assert "slackwater apply -f -" in done.stdout


def test_yaml_is_only_the_documents_for_the_pool(trace: Path) -> None:
    done = assess("--trace", trace, "--vms-per-node", "3", "--model", "max", "--pool", "web", "-o", "yaml")
    assert done.exit_code == 0, done.output
    documents = list(yaml.safe_load_all(done.stdout))
    assert [one["spec"]["nodePool"] for one in documents] == ["web", "web"]
    assert documents[0]["metadata"] == {"name": "web"}
    assert documents[1]["spec"]["models"] == {"cpu": {"name": "max"}, "memory": {"name": "max"}}


def test_prices_that_exclude_each_other_are_refused(trace: Path) -> None:
    done = assess("--trace", trace, "--price-node-month", "1", "--price-gib-hour", "1")
    assert done.exit_code == 2
    assert "--price-node-month: excludes" in done.stderr
