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
from slackwater.simulation.domain.worth import MONTH_HOURS, MemoryRatio, Prices, ratio_of, worth_of
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


@given(AMOUNT, AMOUNT, SIZE, SIZE, st.floats(0.01, 100), st.floats(0.001, 10), st.floats(0.001, 10))
def test_a_core_counts_only_with_its_memory_and_sums_and_money_follow(
    cores: float, gib: float, node_cores: float, node_gib: float, each: float, core_hour: float, gib_hour: float
) -> None:
    node, ratio = (node_cores, node_gib), MemoryRatio(each, "option")
    worth = worth_of(cores, gib, node, ratio, Prices(core_hour, gib_hour))
    assert worth.usable_cores is not None
    assert worth.usable_gib is not None
    assert worth.usable_cores <= cores
    assert worth.usable_gib <= gib
    assert worth.usable_gib == pytest.approx(worth.usable_cores * each)
    whole, usable = (cores, worth.usable_cores) if worth.limited_by == "cpu" else (gib, worth.usable_gib)
    assert usable == pytest.approx(whole)
    assert worth.nodes == pytest.approx(worth.usable_cores / min(node_cores, node_gib / each))
    money = (worth.usable_cores * core_hour + worth.usable_gib * gib_hour) * MONTH_HOURS
    assert worth.per_month == pytest.approx(money)
    by_node = worth_of(cores, gib, node, ratio, Prices(node_month=100.0))
    assert by_node.per_month == pytest.approx(100 * worth.nodes)


def test_many_cores_with_almost_no_memory_are_worth_almost_nothing() -> None:
    ratio = ratio_of(None, requested=(1536.0, 6144.0), node=(96.0, 512.0))
    worth = worth_of(149.3, 1.0, (96.0, 512.0), ratio, Prices(core_hour=0.03, gib_hour=0.004))
    assert ratio == MemoryRatio(4.0, "requests")
    assert (worth.usable_cores, worth.usable_gib, worth.limited_by) == (0.25, 1.0, "memory")
    assert worth.per_month == pytest.approx((0.25 * 0.03 + 1.0 * 0.004) * MONTH_HOURS)


def test_the_ratio_is_the_given_one_or_of_the_requests_or_of_the_nodes() -> None:
    assert ratio_of(2.0, (1.0, 4.0), (8.0, 64.0)) == MemoryRatio(2.0, "option")
    assert ratio_of(None, (1.0, 4.0), (8.0, 64.0)) == MemoryRatio(4.0, "requests")
    assert ratio_of(None, (0.0, 4.0), (8.0, 64.0)) == MemoryRatio(8.0, "nodes")
    assert ratio_of(None, (1.0, 0.0), (8.0, 0.0)) is None


def test_without_a_fitting_price_no_money_is_named() -> None:
    assert worth_of(4.0, None, (2.0, 0.0), None, Prices(gib_hour=1.0)).per_month is None
    alone = worth_of(4.0, None, (2.0, 0.0), None, Prices())
    assert (alone.nodes, alone.usable_cores, alone.limited_by) == (2, 4.0, "")


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf])
def test_a_price_must_be_an_amount(price: float) -> None:
    with pytest.raises(InvalidInput, match="--price-core-hour"):
        Prices(core_hour=price)


def assess(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["assess", *map(str, arguments)])


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("worth") / "usage.csv", hours=30)


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
    assert report.worth.ratio_from == "requests"
    assert report.worth.usable_cores is not None
    assert report.worth.usable_cores <= report.worth.cores
    assert report.worth.per_month == pytest.approx(report.worth.usable_cores * 0.05 * MONTH_HOURS, rel=1e-2)
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
    assert " usable on average: as much as " in done.stdout
    assert "GiB with a core (as the requests; --gib-per-core assumes another)" in done.stdout
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


def test_a_ratio_that_is_no_amount_is_refused(trace: Path) -> None:
    done = assess("--trace", trace, "--gib-per-core", "0")
    assert done.exit_code == 2
    assert "--gib-per-core: 0 is not allowed; above 0" in done.stderr
