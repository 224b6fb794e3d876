"""Metrics declare what they can do; others are found by entry point; what is declared wrongly is refused by name."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from waterline_crowd import NOON, use, view

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.cpu_quota import restore_cpu, throttle_cpu
from slackwater.waterline.cycle import CycleState, Options, run_cycle
from slackwater.waterline.facts.node import BestEffortCpu
from slackwater.waterline.facts.pods import Container
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.ordering.chains import CHAINS
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule
from slackwater.waterline.registry import plugins
from slackwater.waterline.registry.built_in import (
    BATCH_CPU_USAGE,
    BUILT_IN,
    NODE_CPU_USAGE,
    NODE_CPU_USAGE_RATIO,
    PROD_CPU_PRESSURE,
)
from slackwater.waterline.registry.memory import NODE_MEMORY_PRESSURE
from slackwater.waterline.registry.metric import Dimension, Metric, MetricResource

D = Decimal
HOW_TO = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "own-metric.md"
MODULE = HOW_TO.read_text().split("```python\n")[1].split("```")[0]
"""The example of the docs, as it stands there."""


def install(folder: Path, entry: str, module: str = MODULE) -> None:
    """What pip leaves of a wheel: the module, and the metadata with the entry points."""
    (folder / "swap_metric.py").write_text(module)
    metadata = folder / "swap_metric-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: swap-metric\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{entry}\n")


def test_a_metric_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins.all_metrics().names() == BUILT_IN.names()
    install(tmp_path, "swap_usage = swap_metric:swap")
    monkeypatch.syspath_prepend(str(tmp_path))
    swap = plugins.all_metrics().get("swap_usage")
    assert swap is not None
    assert (swap.action_priority, swap.sortable, swap.throttleable, swap.evict_quantified) == (7, True, False, True)
    assert swap.released_by_eviction(use("a", usages={"swap_bytes": 5})) == 5
    policy = Policies(
        (NodePolicy("nq", (Rule("nq", "swap", "swap_usage", D(10), D(10), "evict"),)),),
        (PolicyAction("evict", evicts=True),),
        (PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=("evict",)),),
    )
    node = view(use("a", usages={"swap_bytes": 3}), use("b", usages={"swap_bytes": 9}), use("c"), swap_usage=12)
    done = run_cycle(node, policy, CycleState(), NOON, metrics=plugins.all_metrics())
    assert [step.uid for step in done.plan.steps] == ["a"], "the planner needed no change"
    assert done.plan.remaining[0].is_closed


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("swap_usage = swap_metric:gone", "metric swap_usage: entry point swap_metric:gone cannot be loaded"),
        ("other = swap_metric:swap", "metric other: entry point swap_metric:swap must name a Metric of that name"),
        ("swap_usage = swap_metric:swapped", "must name a Metric"),
        ("node_cpu_usage = slackwater.waterline.registry.built_in:NODE_CPU_USAGE", "the name is taken"),
    ],
)
def test_what_an_installed_package_does_wrong_is_named(
    entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Misconfigured, match=message):
        plugins.all_metrics()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"action_priority": 11}, "action_priority"),
        ({"throttle": throttle_cpu}, "restore"),
        ({"throttle_quantified": True}, "throttle_quantified"),
        ({"evict_quantified": True}, "evict_quantified"),
    ],
)
def test_a_metric_that_contradicts_itself_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Metric("m", Dimension.CPU, **fields)
    assert caught.value.field == field
    assert "m" in caught.value.message


def test_the_page_names_every_metric_and_every_order() -> None:
    page = (HOW_TO.parents[1] / "concepts" / "waterlines.md").read_text()
    assert [name for name in (*BUILT_IN.names(), *CHAINS) if f"`{name}`" not in page] == []


def test_the_attributes_follow_what_was_declared() -> None:
    assert NODE_CPU_USAGE.sortable
    assert NODE_CPU_USAGE.throttleable
    assert NODE_CPU_USAGE.restore is restore_cpu
    assert NODE_MEMORY_PRESSURE.evictable
    assert not NODE_MEMORY_PRESSURE.evict_quantified
    assert not NODE_MEMORY_PRESSURE.throttleable
    assert all(0 <= metric.action_priority <= 10 for metric in BUILT_IN)


def test_gaps_are_in_what_is_released() -> None:
    node = replace(view(use("p", Tier.PROD, 3000)), prod_usage_milli=3000)
    assert NODE_CPU_USAGE_RATIO.release(node, D("0.75"), D("0.5")) == 2500
    assert PROD_CPU_PRESSURE.release(node, D("0.25"), D("0.1")) == 1000
    assert PROD_CPU_PRESSURE.release(node, D("0.99"), D("0.1")) == 7000, "no more than the node has"
    assert PROD_CPU_PRESSURE.release(node, D("0.05"), D("0.1")) is None
    assert NODE_CPU_USAGE_RATIO.release(replace(node, capacity_milli=None), D(1), D(0)) is None


def test_batch_cpu_is_the_sum_over_borrowing_pods_unless_one_is_unknown() -> None:
    crowd = use("a", cpu=300), use("b", Tier.FREE, 200), use("p", Tier.PROD, 4000)
    assert [one.value for one in BATCH_CPU_USAGE.read(view(*crowd))] == [500]
    assert BATCH_CPU_USAGE.read(view(*crowd, use("c", cpu=None))) == ()
    assert BATCH_CPU_USAGE.released_by_eviction(crowd[2]) == 0, "prod is no part of it"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("beyond", [0, 500])
def test_what_is_no_finite_number_is_not_measured_whatever_is_made_of_it(value: float, beyond: int) -> None:
    held = Container("main", usage_milli=500 + beyond, quota_us=50_000, original_quota_us=50_000)
    node = view(use("a", cpu=500 + beyond, containers=(held,)), node_cpu_usage=value, node_cpu_usage_ratio=value)
    names = "node_cpu_usage", "node_cpu_usage_ratio", "batch_cpu_threshold", "prod_cpu_pressure"
    rules = tuple(Rule("nq", name, name, D("0.1"), D("0.1"), "evict") for name in names)
    everybody = PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=("evict",))
    policy = Policies((NodePolicy("nq", rules),), (PolicyAction("evict", evicts=True),), (everybody,))
    node = replace(node, readings={**node.readings, "prod_cpu_pressure": node.readings["node_cpu_usage"]})
    done = run_cycle(node, policy, CycleState(), NOON, options=Options(loop=LoopPolicy()))
    assert (done.plan.steps, len(done.analysis.ignored)) == ((), 4)


def shortfall(window: BestEffortCpu | None, last: BestEffortCpu | None) -> Decimal | None:
    metric = BUILT_IN.get("batch_cpu_shortfall")
    assert metric is not None
    node = replace(view(), best_effort_window=window, best_effort_last=last)
    readings = [D(one.value) for one in metric.read(node)]
    return metric.release(node, readings[0], D("0.6")) if readings else None


def test_satisfaction_needs_window_and_last_sample_and_takes_the_smaller() -> None:
    lacking = BestEffortCpu(9500, 50_000, 10_000)
    assert shortfall(lacking, lacking) == 10_000
    assert shortfall(lacking, replace(lacking, limit_milli=15_000, usage_milli=15_000)) == 5_000
    assert shortfall(lacking, None) is None
    assert shortfall(replace(lacking, covered_ratio=0.3), lacking) is None
    unsaid = replace(view(), best_effort_window=lacking, best_effort_last=lacking)
    for allocatable, readings in ((None, 0), (0, 1)):
        node = replace(unsaid, best_effort_last=replace(lacking, allocatable_milli=allocatable))
        node = replace(node, best_effort_window=node.best_effort_last)
        by_offer = BUILT_IN.by_name["batch_cpu_shortfall_of_allocatable"]
        assert len(by_offer.read(node)) == readings, "an offer that is not known is no calm"
    assert (shortfall(lacking, replace(lacking, usage_milli=4000)) or 0) < 0, "a pod that uses little lacks nothing"
    metric, calm = BUILT_IN.get("batch_cpu_shortfall"), replace(lacking, usage_milli=4000)
    assert metric is not None
    for window, last in ((lacking, calm), (calm, lacking)):
        (reading,) = metric.read(replace(view(), best_effort_window=window, best_effort_last=last))
        assert reading.value == 0, "one that denies it is enough"


def test_only_the_metrics_resource_is_credited() -> None:
    pod = use("a", cpu=500, memory=7)
    memory = BUILT_IN.get("node_memory_usage")
    assert memory is not None
    assert memory.resource is MetricResource.MEMORY
    assert (memory.released_by_eviction(pod), memory.released_by_throttle(pod, D(5))) == (7, 0)
    assert (NODE_CPU_USAGE.released_by_eviction(pod), NODE_CPU_USAGE.released_by_throttle(pod, D(5))) == (500, 5)
