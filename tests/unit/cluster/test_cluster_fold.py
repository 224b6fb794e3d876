"""The fold into arrays says what the plain fold says, whatever comes in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

import numpy as np
from cluster_events import EPOCH, NODES, UIDS, events, histories, key_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.plain_cluster import Amount, PlainCluster, PlainNode, PlainPod

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.view import NONE, QOS_CLASSES, TIERS, Amounts, ClusterView, LivenessCode, Source, ViewColumn
from slackwater.events.envelope import Event
from slackwater.events.pod_columns import by_columns
from slackwater.events.usage_reported import UsageReported

NOW = EPOCH + timedelta(seconds=100)
Step = Event[Any] | tuple[str, int]
"""An event, or the removal of a node at a second."""


def plain_of(view: ClusterView) -> Mapping[str, PlainNode]:
    """What the arrays say, row by row."""
    nodes, pods = view.nodes, view.pods
    found = {}
    for name, row in nodes.rows.items():
        assert nodes.exists[row]
        assert nodes.names[row] == name
        facts = nodes.facts[row]
        assert (nodes.pools[nodes.pool[row]] if nodes.pool[row] != NONE else None) == (facts and facts.pool)
        assert _amount(nodes.capacity, row) == (
            (facts.capacity.cpu_milli, facts.capacity.memory_bytes) if facts else (None, None)
        )
        ages = {source.name.lower(): float(nodes.age_seconds[row, source]) for source in Source}
        found[name] = PlainNode(
            facts=facts,
            ages={source: age for source, age in ages.items() if age != np.inf},
            usage=_amount(nodes.usage, row),
            system_usage=_amount(nodes.system_usage, row),
            prod_pressure=_ratio(nodes.prod_pressure[row]),
            window_p95=_amount(nodes.window_p95, row),
            node_peak=_amount(nodes.node_peak, row),
            system_peak=_amount(nodes.system_peak, row),
            prod_peak=_amount(nodes.prod_peak, row),
            prod_reclaimable=_amount(nodes.prod_reclaimable, row),
            tier_peaks={
                tier: _amount(Amounts(nodes.tier_peaks.value[:, place], nodes.tier_peaks.known[:, place]), row)
                for place, tier in enumerate(TIERS)
            },
            confidence=_ratio(nodes.confidence[row]),
            cold_start_share=_ratio(nodes.cold_start_share[row]),
            batch=_amount(nodes.batch, row),
            mid=_amount(nodes.mid, row),
            offer_generation=_value(nodes.offer_generation, row),
            offer_degraded=bool(nodes.offer_degraded[row]),
            liveness=LivenessCode(nodes.liveness[row]).name.lower(),
            cordoned=bool(nodes.cordoned[row]),
            intent_pending=bool(nodes.intent_pending[row]),
            pods={pods.uids[pod]: _pod(view, pod) for pod in np.flatnonzero(pods.exists & (pods.node == row)).tolist()},
        )
    assert sorted(found) == sorted(name for name in nodes.names if name)
    return found


def _pod(view: ClusterView, row: int) -> PlainPod:
    pods = view.pods
    described = pods.described[row]
    assert described is not None
    assert pods.uids[row] == described.uid
    assert (TIERS[pods.tier[row]], QOS_CLASSES[pods.qos[row]]) == (described.tier, described.qos)
    assert pods.workloads[pods.workload[row]] == described.workload
    assert pods.namespaces[pods.namespace[row]] == described.namespace
    assert pods.priority[row] == described.priority
    assert (
        EPOCH + timedelta(microseconds=int(pods.started_at[row]) - int(EPOCH.timestamp() * 1e6)) == described.started_at
    )
    assert _amount(pods.request, row) == (described.request.cpu_milli, described.request.memory_bytes)
    limit = _value(pods.cpu_limit, row)
    return PlainPod(
        described=described,
        usage=_amount(pods.usage, row),
        cpu_limit="unlimited" if limit == NONE else limit,
        window_p95=_amount(pods.window_p95, row),
        peak=_amount(pods.peak, row),
        cold_start=bool(pods.cold_start[row]),
        wanted_cpu_limit=_value(pods.wanted_cpu_limit, row),
        limit_failed=bool(pods.limit_failed[row]),
        evicting=bool(pods.evicting[row]),
    )


def _amount(amounts: Amounts, row: int) -> Amount:
    cpu, memory = (
        int(value) if known else None for value, known in zip(amounts.value[row], amounts.known[row], strict=True)
    )
    return cpu, memory


def _value(column: ViewColumn, row: int) -> int | None:
    return int(column.value[row]) if column.known[row] else None


def _ratio(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def folded(steps: Sequence[Step]) -> ClusterFold:
    fold = ClusterFold()
    for step in steps:
        _take(fold, step)
    return fold


def _take(fold: ClusterFold | PlainCluster, step: Step) -> None:
    if isinstance(step, Event):
        fold.apply(step)
    else:
        fold.remove(step[0], EPOCH + timedelta(seconds=step[1]))


removals = st.tuples(st.sampled_from(NODES), st.integers(0, 60))


@given(st.lists(st.one_of(events, events, events, removals), max_size=14))
@settings(max_examples=200, deadline=None)
def test_the_arrays_say_what_the_plain_fold_says(steps: Sequence[Step]) -> None:
    """After every step: any order, repetitions, old generations, removals and the reuse of rows and numbers."""
    fold, plain = ClusterFold(), PlainCluster()
    for step in steps:
        _take(fold, step)
        _take(plain, step)
        view = fold.view(NOW)
        assert plain_of(view) == plain.view(NOW)
        assert_rows_hold_together(view)


def assert_rows_hold_together(view: ClusterView) -> None:
    nodes, pods = view.nodes, view.pods
    assert not np.any(pods.exists & (pods.node == NONE))
    assert not any(facts for facts, exists in zip(nodes.facts, nodes.exists, strict=True) if not exists)
    for amounts in (nodes.capacity, nodes.usage, nodes.batch, nodes.node_peak):
        assert not amounts.known[~nodes.exists].any()
        assert not amounts.value[~amounts.known].any()
    for amounts in (pods.request, pods.usage, pods.peak):
        assert not amounts.value[~amounts.known].any()
    assert not pods.request.known[~pods.exists].any()
    named = [(int(node), uid) for node, uid in zip(pods.node, pods.uids, strict=True) if uid]
    assert len(named) == len(set(named))
    used = {text for text in pods.workloads if text}
    assert used >= {pods.workloads[pods.workload[row]] for row in np.flatnonzero(pods.exists)}


@given(histories, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_across_sources_and_repetitions_change_nothing(history: Sequence[Event[Any]], random: Any) -> None:
    ordered = {key: list(group) for key, group in groupby(sorted(history, key=key_of), key=key_of)}
    queues = [list(events) for events in ordered.values()]
    mixed: list[Event[Any]] = []
    while any(queues):
        queue = random.choice([each for each in queues if each])
        mixed.append(queue.pop(0))
        if random.random() < 0.3:
            mixed.append(mixed[-1])
    straight = [event for events in ordered.values() for event in events]
    assert plain_of(folded(mixed).view(NOW)) == plain_of(folded(straight).view(NOW))


@given(histories)
@settings(max_examples=100, deadline=None)
def test_columns_of_a_fast_reader_give_the_same_as_a_report(history: Sequence[Event[Any]]) -> None:
    by_column = [
        event.model_copy(update={"data": event.data.model_copy(update={"pods": by_columns(event.data.pods)})})
        if isinstance(event.data, UsageReported)
        else event
        for event in history
    ]
    assert plain_of(folded(by_column).view(NOW)) == plain_of(folded(history).view(NOW))


@given(histories)
@settings(max_examples=50, deadline=None)
def test_a_view_does_not_change_with_what_comes_later(history: Sequence[Event[Any]]) -> None:
    half = len(history) // 2
    fold = folded(history[:half])
    view, before = fold.view(NOW), plain_of(fold.view(NOW))
    for event in history[half:]:
        fold.apply(event)
    fold.remove(NODES[0], NOW)
    assert plain_of(view) == before


@given(histories)
@settings(max_examples=50, deadline=None)
def test_when_every_node_is_removed_nothing_is_held(history: Sequence[Event[Any]]) -> None:
    fold = folded(history)
    rows = len(fold.view(NOW).pods.exists)
    for name in NODES:
        fold.remove(name, EPOCH)
    view = fold.view(NOW)
    assert not view.nodes.exists.any()
    assert not any(view.pods.uids)
    assert not any((*view.pods.workloads, *view.pods.namespaces, *view.nodes.pools))
    for event in history:
        fold.apply(event)
    assert len(fold.view(NOW).pods.exists) <= max(rows, len(NODES) * len(UIDS))
