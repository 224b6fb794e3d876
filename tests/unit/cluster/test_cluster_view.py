"""Rows stay, ages and unknown values are visible, and sums say what they leave out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.clock import EPOCH
from tests.support.reports import described, pod, pod_usage, report, usage
from tests.support.windows import window_of

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.rows import Interned
from slackwater.cluster.view import CPU, NONE, Source
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.measures import PodUsage
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import roster_of
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.model.quantities import Resources


def event(data: Any) -> Event[Any]:
    return event_of(data, source="tests", time=EPOCH)


def reported(fold: ClusterFold, node: str, sequence: int, *pods: PodUsage) -> None:
    fold.apply(event(report(node, sequence, EPOCH + timedelta(seconds=sequence), pods=pods)))


def test_a_pod_keeps_its_row_and_a_freed_row_is_used_again_as_another_incarnation() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a"), pod_usage("b"))
    first = fold.view(EPOCH).pods
    reported(fold, "n", 2, pod_usage("b"))
    reported(fold, "n", 3, pod_usage("b"), pod_usage("c"))
    second = fold.view(EPOCH).pods
    assert first.uids.index("b") == second.uids.index("b")
    row = first.uids.index("a")
    assert second.uids[row] == "c"
    assert second.incarnation[row] == first.incarnation[row] + 1
    assert len(second.exists) == 2


def test_an_unknown_amount_is_not_zero() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a", cpu_milli=300), PodUsage(pod("b"), usage(700, samples=0)))
    view = fold.view(EPOCH)
    assert view.pods.usage.known[:, CPU].tolist() == [True, False]
    sums, unknown = view.sum_by_node(view.pods.usage, view.pods.exists)
    assert (sums[0, CPU], unknown[0, CPU]) == (300, 1)
    assert not view.nodes.capacity.known.any()
    assert not view.nodes.batch.known.any()
    assert np.isnan(view.nodes.confidence[0])


def test_a_system_that_is_not_predicted_yet_counts_with_what_it_uses() -> None:
    fold = ClusterFold()
    fold.apply(event(described("n", EPOCH)))
    fold.apply(event(report("n", 1, EPOCH).model_copy(update={"system_usage": usage(120, 5)})))
    whole, none = Resources(4_000, 8 << 30), Resources()
    loads = []
    for number, system in enumerate((None, whole, Resources(700, 8 << 30), Resources(700, 9)), 1):
        if system is not None:
            predicted = PeakPredicted(
                node="n", predicted_at=EPOCH, window_number=number, window_seconds=60, model="m", samples=9,
                cold_start_share=1.0, node_peak=whole, system_peak=system, tier_peaks={}, prod_peak=none,
                prod_reclaimable=none, pods=(), decision_id="d",
            )  # fmt: skip
            fold.apply(event(predicted))
        loads.append(fold.view(EPOCH).nodes.system_load(0))
    assert loads == [(120, 5), (120, 5), (700, 5), (700, 9)]


def test_allocatable_is_never_below_zero() -> None:
    fold = ClusterFold()
    data = described("n", EPOCH, cpu_milli=100)
    object.__setattr__(data.facts, "reserved", Resources(200, 5))
    fold.apply(event(data))
    assert fold.view(EPOCH).nodes.allocatable.value[0, CPU] == 0


def test_each_source_has_an_age() -> None:
    fold = ClusterFold()
    fold.apply(event(described("n", EPOCH)))
    reported(fold, "n", 60)
    nodes = fold.view(EPOCH + timedelta(seconds=50)).nodes
    assert nodes.age_seconds[0, Source.DESCRIBED] == 50
    assert nodes.age_seconds[0, Source.REPORTED] == -10
    assert nodes.age_seconds[0, Source.OFFERED] == np.inf
    assert nodes.is_stale(Source.REPORTED, 5).tolist() == [True]
    assert nodes.is_stale(Source.REPORTED, 10).tolist() == [False]
    assert nodes.is_stale(Source.OFFERED, 1e9).tolist() == [True]


def test_a_clock_that_was_set_back_does_not_hide_reports_of_the_same_boot() -> None:
    fold = ClusterFold()
    fold.apply(event(report("n", 1, EPOCH + timedelta(hours=1))))
    assert fold.apply(event(report("n", 2, EPOCH, cpu_milli=77)))
    assert fold.view(EPOCH).nodes.usage.value[0, CPU] == 77
    assert not fold.apply(event(report("n", 9, EPOCH - timedelta(1), boot_epoch="boot-0")))


def test_two_nodes_may_name_the_same_uid() -> None:
    fold = ClusterFold()
    reported(fold, "honest", 1, pod_usage("a", cpu_milli=1))
    reported(fold, "other", 1, pod_usage("a", cpu_milli=2))
    view = fold.view(EPOCH)
    rows = view.pod_rows()
    assert view.pods.usage.value[rows[view.nodes.rows["honest"], "a"], CPU] == 1
    assert view.pods.usage.value[rows[view.nodes.rows["other"], "a"], CPU] == 2


def test_pods_are_found_by_node() -> None:
    fold = ClusterFold()
    reported(fold, "x", 1, pod_usage("a"), pod_usage("b"))
    reported(fold, "y", 1)
    reported(fold, "z", 1, pod_usage("c"))
    view = fold.view(EPOCH)
    rows, begin = view.pods_by_node()
    found = {
        name: [view.pods.uids[pod] for pod in rows[begin[row] : begin[row + 1]]]
        for name, row in view.nodes.rows.items()
    }
    assert found == {"x": ["a", "b"], "y": [], "z": ["c"]}


def test_a_removed_node_comes_back_with_news_only() -> None:
    fold = ClusterFold()
    old = event(described("n", EPOCH))
    fold.apply(old)
    assert fold.remove("n", EPOCH)
    assert not fold.apply(old)
    assert not fold.view(EPOCH).nodes.exists.any()
    assert fold.apply(event(described("n", EPOCH + timedelta(seconds=1))))
    assert fold.view(EPOCH).nodes.exists.tolist() == [True]


def test_other_events_are_left_alone() -> None:
    fold = ClusterFold()
    assert not fold.apply(event(StrategyChecked.model_construct(node="n")))
    assert fold.view(EPOCH).revision == 0


def test_arrays_are_read_only() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a"))
    view = fold.view(EPOCH)
    for array in (view.nodes.at, view.nodes.usage.value, view.pods.node, view.pods.cpu_limit.known):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = NONE


def test_numbers_of_texts_are_used_again_when_nothing_holds_them() -> None:
    texts = Interned()
    first, second = texts.acquire("a"), texts.acquire("b")
    assert texts.acquire("a") == first
    texts.release(first)
    assert texts.acquire("c") not in {first, second}
    texts.release(first)
    assert texts.acquire("d") == first
    assert texts.texts() == ("d", "b", "c")
    assert len(texts) == 3


def test_a_description_may_change_while_the_pod_runs() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a"))
    before = fold.view(EPOCH).pods
    moved = replace(pod_usage("a"), pod=replace(pod("a"), workload="default/other", request=Resources(7, 8)))
    reported(fold, "n", 2, moved)
    after = fold.view(EPOCH).pods
    assert after.described[0] == moved.pod
    assert after.request.value.tolist() == [[7, 8]]
    assert after.workloads[after.workload[0]] == "default/other"
    assert before.described[0] == pod("a")


def declared(writer: str, generation: int, at: int, limit: int = 100) -> Event[Any]:
    return event(
        IntentDeclared(
            node="n",
            writer=writer,
            generation=generation,
            declared_at=EPOCH + timedelta(seconds=at),
            lease_seconds=30,
            throttles=(CpuThrottle(pod_uid="a", cpu_limit_milli=limit, decision_id="d"),),
        )
    )


def answered(writer: str, generation: int, error: str | None) -> Event[Any]:
    limits = (ObservedLimit(pod_uid="a", cpu_limit_milli=None, error=error),)
    return event(
        IntentObserved(
            node="n",
            writer=writer,
            generation=generation,
            boot_epoch="boot-1",
            received_at=EPOCH,
            observed_at=EPOCH,
            limits=limits,
        )
    )


def test_an_answer_counts_for_the_document_that_it_answers() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a"))
    fold.apply(declared("ensurance", 1, 0))
    fold.apply(answered("ensurance", 1, "write_refused"))
    first = fold.view(EPOCH)
    fold.apply(declared("ensurance", 2, 1))
    second = fold.view(EPOCH)
    assert (first.pods.limit_failed.tolist(), first.nodes.intent_pending.tolist()) == ([True], [False])
    assert (second.pods.limit_failed.tolist(), second.nodes.intent_pending.tolist()) == ([False], [True])


def test_the_lowest_limit_of_all_writers_is_wanted_and_the_newest_document_gives_the_age() -> None:
    fold = ClusterFold()
    reported(fold, "n", 1, pod_usage("a"))
    fold.apply(declared("ensurance", 1, 20, limit=300))
    fold.apply(declared("quota", 1, 5, limit=200))
    view = fold.view(EPOCH + timedelta(seconds=30))
    assert view.pods.wanted_cpu_limit.value.tolist() == [200]
    assert view.nodes.age_seconds[0, Source.DECLARED] == 10


def rostered(sequence: int, *uids: str) -> Event[Any]:
    at = EPOCH + timedelta(seconds=sequence)
    roster = roster_of([pod(uid) for uid in uids], ())
    return event(PodsRostered(node="n", boot_epoch="boot-1", sequence=sequence, rostered_at=at, slot=0, roster=roster))


def running(fold: ClusterFold) -> list[str]:
    pods = fold.view(EPOCH).pods
    return [uid for uid, exists in zip(pods.uids, pods.exists, strict=True) if exists]


def test_a_roster_says_what_runs_and_the_report_with_its_number_what_that_uses() -> None:
    fold = ClusterFold()
    assert fold.apply(rostered(3, "a"))
    assert (running(fold), fold.view(EPOCH).pods.usage.known.any()) == (["a"], False)
    assert fold.apply(event(report("n", 3, EPOCH, pods=[pod_usage("a", cpu_milli=300)])))
    assert fold.view(EPOCH).pods.usage.value[0, CPU] == 300
    assert not fold.apply(rostered(3, "a")), "it comes again, or late"
    assert fold.apply(rostered(4))
    assert running(fold) == []


def test_a_roster_of_a_report_that_waited_does_not_bring_its_pods_back() -> None:
    fold = ClusterFold()
    fold.apply(rostered(5, "new"))
    assert not fold.apply(rostered(4, "old"))
    assert running(fold) == ["new"]


def test_usage_is_that_of_the_report_or_window_that_ended_later() -> None:
    fold = ClusterFold()
    fold.apply(rostered(1, "a", "b"))
    for at, level in ((10, 100), (70, 200)):
        past = report("n", 0, EPOCH + timedelta(seconds=at), cpu_milli=level, pods=[pod_usage("a", cpu_milli=level)])
        fold.apply(event(window_of(past, 60)))
    view = fold.view(EPOCH)
    assert (view.nodes.usage.value[0, CPU], view.nodes.system_usage.value[0, CPU]) == (200, 20)
    assert view.pods.usage.value[:, CPU].tolist() == [200, 0]
    assert view.pods.usage.known[:, CPU].tolist() == [True, False], "b came after the window"
    fold.apply(event(report("n", 99, EPOCH + timedelta(seconds=71), pods=[pod_usage("a", cpu_milli=7)])))
    assert fold.view(EPOCH).pods.usage.value[0, CPU] == 7
