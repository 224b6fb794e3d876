"""Marks of a node's timeline and its waterlines; what the filters of the feed ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.clock import EPOCH

from slackwater.charts.level_chart import LevelSample, level_chart
from slackwater.charts.svg import Frame
from slackwater.console.domain.marks import cpu_lines, css_of, label_of, marks_of, memory_lines
from slackwater.console.domain.views import DecisionSummary
from slackwater.console.edge.filters import FilterForm
from slackwater.console.usecases.pictures import memory_by_layer
from slackwater.console.usecases.translate import intent_view
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action
from slackwater.events.intent_declared import IntentDeclared, LocalWaterline, WeightPolicy
from slackwater.model.errors import InvalidInput

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
FRAME = Frame(880, 240)


def acted(number: int) -> tuple[Action, ...]:
    return tuple(
        Action(
            pod_uid=f"u{each}", pod_name=f"web-{each}", tier="batch", cpu_limit_before_milli=None,
            cpu_limit_after_milli=100, released_milli=10,
        )
        for each in range(number)
    )  # fmt: skip


def summary(**more: Any) -> DecisionSummary:
    values: dict[str, Any] = {
        "id": "d1",
        "kind": DecisionKind.THROTTLE,
        "node": "n1",
        "subject": "cpu",
        "service": "ensurance",
        "rule": "busy",
        "mode": Mode.THROTTLE,
        "reason": Reason.THROTTLE_WATERLINE_CROSSED,
        "decided_at": NOON,
        "result": 500,
        "unit": "milli-cores",
        "remaining": 0,
        "remaining_because": "",
        "actions": acted(2),
    }
    return DecisionSummary(**{**values, **more})


def test_a_mark_names_the_decision_its_pods_and_its_effect() -> None:
    told = label_of(summary(actions=acted(5), relieved=True, seconds_to_actuation=0.25))
    assert told.splitlines() == [
        "12:00:00 UTC, throttle: took back 0.5 cores",
        "throttle waterline crossed, rule busy",
        "web-0, web-1, web-2 and 2 more",
        "relieved, written after 0.25 s",
        "decision d1",
    ]


def test_a_mark_says_what_remains_and_that_it_did_not_help() -> None:
    told = label_of(summary(remaining=300, remaining_because="all at their floor", relieved=False))
    assert "0.3 cores remain: all at their floor\nnot relieved\ndecision d1" in told


@pytest.mark.parametrize(
    ("changes", "css"),
    [
        ({}, "throttle"),
        ({"reason": Reason.THROTTLE_OBSERVED_ONLY}, "throttle told"),
        ({"reason": Reason.THROTTLE_LEFT_TO_WEIGHTS}, "throttle told"),
        ({"actions": ()}, "throttle told"),
        ({"kind": DecisionKind.SCHEDULING, "reason": Reason.SCHEDULING_CALM, "actions": ()}, "scheduling"),
        ({"kind": DecisionKind.EVICT, "reason": Reason.EVICT_OBSERVED_ONLY}, "evict told"),
    ],
)
def test_a_decision_without_an_act_is_drawn_differently(changes: dict[str, Any], css: str) -> None:
    assert css_of(summary(**changes)) == css


def test_marks_lead_to_their_decisions_oldest_first() -> None:
    later = summary(id="d2", decided_at=NOON + timedelta(minutes=1))
    marks = marks_of([later, summary()])
    assert [mark.href for mark in marks] == ["/decisions/d1", "/decisions/d2"]
    samples = [LevelSample(NOON + timedelta(seconds=30 * each), {"prod": 1000}, None) for each in range(4)]
    drawn = level_chart(
        FRAME, NOON, NOON + timedelta(minutes=2), samples, 4000, marks, waterlines=[("node cpu usage", 2600)]
    )
    assert drawn.count('<a href="/decisions/d1">') == 1
    assert "decision d2</title>" in drawn
    assert "waterline of node cpu usage 2.6" in drawn


def test_waterlines_that_are_an_amount_of_the_node_are_drawn_once_each() -> None:
    known = {
        "node_cpu_usage_ratio": 0.65,
        "node_cpu_usage": 3000.0,
        "prod_cpu_pressure": 0.1,
        "batch_cpu_threshold": 0.65,
    }
    assert [(line.name, line.amount) for line in cpu_lines(known, 4000)] == [
        ("node cpu usage", 3000), ("node cpu usage, batch cpu threshold", 2600),
    ]  # fmt: skip
    assert [(line.name, line.amount) for line in memory_lines({"node_memory_usage_ratio": 0.5}, 8 << 30)] == [
        ("node memory usage", 4000)
    ]
    assert memory_lines({"node_cpu_usage": 1.0}, 8 << 30) == ()


def test_of_several_rules_the_lowest_waterline_is_drawn() -> None:
    lines = tuple(LocalWaterline(metric="node_cpu_usage_ratio", value=value) for value in (0.8, 0.65, 0.9))
    intent = IntentDeclared(
        node="n1", writer="ensurance", generation=1, epoch=1, declared_at=EPOCH, lease_seconds=15,
        weights=WeightPolicy.BY_TIER, throttles=(), evictions=(), waterlines=lines,
    )  # fmt: skip
    assert intent_view(intent).waterlines == {"node_cpu_usage_ratio": 0.65}


def test_the_form_asks_for_pool_pod_and_what_was_carried_out_and_keeps_it_in_the_address() -> None:
    asked = FilterForm(pool=" edge ", pod="web-0", spared="true", done="only-told", kind="evict", since="-1h")
    wanted = asked.question(NOON)
    assert (wanted.pool, wanted.pod, wanted.spared, wanted.carried_out) == ("edge", "web-0", True, False)
    assert (wanted.kinds, wanted.since) == ((DecisionKind.EVICT,), NOON - timedelta(hours=1))
    assert set(asked.given) == {"pool", "pod", "spared", "done", "kind", "since"}
    assert FilterForm(done="carried-out").question(NOON).carried_out is True
    assert FilterForm().question(NOON).carried_out is None


def test_a_word_that_the_form_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidInput, match="carried-out, only-told"):
        FilterForm(done="perhaps").question(NOON)


def test_memory_is_drawn_in_thousandths_of_a_gib(told: Any) -> None:
    point = next(iter(told._usage.values()))
    layers = memory_by_layer(point)
    assert layers["prod"] == round(point.tiers["prod"].memory_bytes * 1000 / 2**30)
    assert set(layers) == {*point.tiers, "system"}


def test_a_span_that_ends_before_it_begins_is_refused_as_the_api_does_it() -> None:
    with pytest.raises(InvalidInput, match=r"since .* is after until"):
        FilterForm(since="-5m", until="-1h").question(NOON)
    assert FilterForm(since="-1h", until="-5m").question(NOON).until == NOON - timedelta(minutes=5)
