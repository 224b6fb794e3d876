"""Whatever an installed metric raises or makes up, its own rule rests and says why, and every other rule goes on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from waterline_crowd import use, view
from waterline_cycle import evicted
from waterline_rules import EVICT, EXACT, at, policies, rule

from slackwater.model.errors import Misconfigured
from slackwater.waterline.cycle import Cycle, CycleState, run_cycle
from slackwater.waterline.facts.node import MetricSeries
from slackwater.waterline.ordering.chains import Comparator, ComparatorChain
from slackwater.waterline.policies.rules import NodeQosRules
from slackwater.waterline.registry import plugins
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Dimension, Fact, Metric
from slackwater.waterline.registry.plugin_sandbox import sandboxed

D = Decimal
CROWD = use("a", cpu=300), use("b", cpu=200), use("c", cpu=100)
RULES = policies(
    rule("mine", 50, "evict", name="mine"), rule("node_cpu_usage", 400, "evict", name="cpu"), actions=(EVICT,)
)


def broken(*_: object) -> Any:
    raise RuntimeError("no such file")


def always(value: object) -> Callable[..., Any]:
    return lambda *_: value


GOOD = Metric(
    "mine",
    Dimension.NUMBER,
    readings=always((MetricSeries(55),)),
    evictable=True,
    evict=always(D(5)),
    evict_quantified=True,
)


def cycle(metric: Metric) -> Cycle:
    return run_cycle(
        view(*CROWD), RULES, CycleState(), at(0), options=EXACT, metrics=BUILT_IN.with_metrics(sandboxed(metric))
    )


def test_a_metric_that_works_is_worked_off_as_before() -> None:
    done = cycle(GOOD)
    assert (evicted(done), done.analysis.ignored) == (["a"], ())
    assert {one.metric: one.released for one in done.plan.remaining} == {"mine": 5, "node_cpu_usage": 300}


@pytest.mark.parametrize(
    ("readings", "because"),
    [
        (broken, "mine cannot be read: RuntimeError: no such file"),
        (always(5), "mine cannot be read: TypeError: 'int' object is not iterable"),
        (
            always((MetricSeries("55"),)),
            "its readings gave MetricSeries(value='55', labels={}); allowed: a MetricSeries of numbers",
        ),  # type: ignore[arg-type]
        (always((None,)), "its readings gave None; allowed: a MetricSeries of numbers"),
        (always((MetricSeries(float("nan")),)), "no reading of mine"),
    ],
)
def test_an_unreadable_metric_pauses_and_is_reported_and_the_others_go_on(readings: Any, because: str) -> None:
    done = cycle(replace(GOOD, readings=readings))
    assert evicted(done) == ["a"], "for node_cpu_usage: 200 too many"
    (ignored,) = done.analysis.ignored
    assert ignored.rule == "nq.mine"
    assert because in ignored.because


@pytest.mark.parametrize(
    "fields",
    [
        {"release": broken},
        {"release": always(D("NaN"))},
        {"release": always("much")},
        {"evict": broken},
        {"evict": always(D("NaN"))},
        {"evict": always("much")},
        {"concerns": broken},
        {"concerns": always("yes")},
    ],
)
def test_an_unquantified_metric_acts_on_no_pod_and_the_others_go_on(fields: dict[str, Any]) -> None:
    done = cycle(replace(GOOD, **fields))
    assert evicted(done) == ["a"]
    assert [step.metric for step in done.plan.steps] == ["node_cpu_usage"]


@pytest.mark.parametrize(
    ("fields", "part"),
    [({"release": broken}, "release"), ({"evict": broken}, "evict"), ({"concerns": broken}, "concerns")],
)
def test_a_metric_that_raises_is_reported_once(fields: dict[str, Any], part: str) -> None:
    heard: list[tuple[str, str, str]] = []
    known = sandboxed(replace(GOOD, **fields), lambda *told: heard.append(told))
    for _ in range(2):
        run_cycle(view(*CROWD), RULES, CycleState(), at(0), options=EXACT, metrics=BUILT_IN.with_metrics(known))
    assert heard == [("mine", part, "RuntimeError: no such file")]


def test_what_is_written_as_float_is_taken_as_it_is_written() -> None:
    done = cycle(replace(GOOD, release=always(0.1), evict=always(0.1)))
    assert next(one for one in done.plan.remaining if one.metric == "mine").gap == D("0.1")


def test_a_sorter_that_fails_is_undecided_and_a_throttle_that_fails_limits_no_pod() -> None:
    chain = ComparatorChain("odd", (Comparator("broken", broken), Comparator("text", always("x"))))
    known = sandboxed(replace(GOOD, sort=chain, throttle=broken, restore=broken, basis=broken))
    assert [pod.uid for pod in known.chain.order(reversed(CROWD))] == ["a", "b", "c"]
    assert known.throttle is not None
    assert known.throttle(CROWD[0], None, None) == ()  # type: ignore[arg-type]
    assert known.basis(view()) == ()
    assert sandboxed(replace(GOOD, basis=always((Fact("x", 1, "y"),)))).basis(view()) == (Fact("x", 1, "y"),)


def test_a_rule_that_cannot_be_checked_is_refused_with_the_reason() -> None:
    metrics = BUILT_IN.with_metrics(sandboxed(replace(GOOD, check=broken)))
    one = {"name": "x", "metricRule": {"name": "mine", "value": 5}, "actionName": "evict"}
    with pytest.raises(Exception, match="the metric could not check the rule: RuntimeError: no such file"):
        NodeQosRules.parse({"metadata": {"name": "own"}, "spec": {"rules": [one]}}, metrics)


def test_a_module_that_cannot_be_imported_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_metric.py").write_text("raise RuntimeError('no licence')\n")
    metadata = tmp_path / "odd_metric-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-metric\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nodd = odd_metric:odd\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(Misconfigured, match="metric odd: entry point odd_metric:odd cannot be loaded: RuntimeError"):
        plugins.all_metrics()
