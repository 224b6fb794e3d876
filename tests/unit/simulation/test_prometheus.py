"""Prometheus as a source: paged, retried, understood, and honest about what is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from asked_prometheus import DAY, START, asking, placed
from small_prometheus import Made, SmallPrometheus, Value, cluster, serving

from slackwater.model.errors import InvalidInput, Misconfigured, NotFound
from slackwater.simulation.adapters.prometheus import TimeRange
from slackwater.simulation.adapters.prometheus_queries import Queries
from slackwater.traces.options import TraceResource

PODS = Queries().pods


def test_pods_are_on_their_nodes_with_what_they_use_and_asked_for(small: SmallPrometheus) -> None:
    found = placed(small)
    assert list(found.nodes) == ["node-0", "node-1"]
    assert found.capacity.tolist() == [[8000, 32 * 2**30]] * 2
    cpu, memory = found.traces[TraceResource.CPU], found.traces[TraceResource.MEMORY]
    assert (cpu.cells, cpu.series) == (288, 6)
    assert cpu.names[0] == "shop/web-0-0"
    assert cpu.workload.tolist() == [0, 0, 0, 1, 1, 1], "a Deployment is a workload, not its ReplicaSet"
    at = START - cpu.start_seconds
    assert cpu.usage[at // 300, 0] == pytest.approx(500), "both containers together"
    assert memory.usage[at // 300, 0] == pytest.approx(2 * 2**30)
    asked = found.requests[TraceResource.CPU]
    assert asked.tolist() == [[2000.0] * 6] * 288
    (now, *_) = found.moments(1)
    assert found.requested(now).tolist() == [[2000, 8 * 2**30]] * 6
    assert found.there is not None
    assert found.there.all()
    assert len(found.notes) == 1


def test_what_two_scrape_counts_once() -> None:
    """Two replicas of kube-state-metrics, or a cAdvisor under two jobs: the same under other labels of the target."""
    made = [
        replace(one, labels={**one.labels, "job": job, "instance": f"{job}:8080"})
        for one in cluster(nodes=1, pods=1)
        for job in ("kubelet", "kubernetes-cadvisor")
    ]
    with serving(SmallPrometheus(made)) as small:
        found = placed(small)
    assert found.capacity.tolist() == [[8000, 32 * 2**30]]
    assert found.traces[TraceResource.CPU].usage[0].tolist() == pytest.approx([500])
    assert found.traces[TraceResource.MEMORY].usage[0].tolist() == pytest.approx([2 * 2**30])
    assert found.requests[TraceResource.CPU][0].tolist() == [2000]
    assert found.requests[TraceResource.MEMORY][0].tolist() == [8 * 2**30]


def test_a_counter_of_each_cpu_is_added_up_and_a_container_that_began_anew_is_not() -> None:
    made = [one for one in cluster(nodes=1, pods=1) if "cpu_usage" not in one.name]
    who = {"namespace": "shop", "pod": "web-0-0", "container": "app"}
    for cpu in ("cpu00", "cpu01"):
        labels = {**who, "cpu": cpu, "id": "/kubepods/web-0-0/first"}
        made.append(Made("container_cpu_usage_seconds_total", labels, lambda at: 0.5))
    again = {**who, "cpu": "cpu00", "id": "/kubepods/web-0-0/second"}
    made.append(Made("container_cpu_usage_seconds_total", again, lambda at: 0.25 if at < START + 300 else None))
    with serving(SmallPrometheus(made)) as small:
        cpu_usage = placed(small).traces[TraceResource.CPU].usage
    assert cpu_usage[:2, 0].tolist() == [1000, 1000], "the CPUs of one series, the greatest of the container's series"


NAMES_OF_TARGETS = {"namespace": "monitoring", "pod": "kube-state-metrics-0", "container": "main", "node": "node-1"}


def test_labels_that_the_scraper_renamed_are_read() -> None:
    """Without honor_labels, labels of the target take the names, and what was scraped is `exported_`: taken as they
    are, a cluster has one node, and on it one pod, kube-state-metrics."""
    made = [
        replace(
            one,
            labels={f"exported_{name}" if name in NAMES_OF_TARGETS else name: said for name, said in one.labels.items()}
            | NAMES_OF_TARGETS,
        )
        if one.name.startswith("kube_")
        else one
        for one in cluster()
    ]
    with serving(SmallPrometheus(made)) as renamed, serving(SmallPrometheus(cluster())) as usual:
        found, wanted = placed(renamed), placed(usual)
    assert list(found.nodes) == list(wanted.nodes)
    assert found.capacity.tolist() == wanted.capacity.tolist()
    for each in TraceResource:
        assert found.traces[each].names == wanted.traces[each].names
        assert found.traces[each].usage.tolist() == wanted.traces[each].usage.tolist()
        assert found.requests[each].tolist() == wanted.requests[each].tolist()


def test_a_cadvisor_whose_labels_were_renamed_is_refused() -> None:
    made = [
        replace(one, labels={f"exported_{name}": said for name, said in one.labels.items()} | NAMES_OF_TARGETS)
        if one.name.startswith("container_")
        else one
        for one in cluster()
    ]
    with serving(SmallPrometheus(made)) as small, pytest.raises(Misconfigured, match="set honor_labels: true"):
        placed(small)


def test_warnings_of_the_server_are_passed_on_once(small: SmallPrometheus) -> None:
    small.warnings = ["PromQL warning: one store did not answer"]
    assert [note for note in placed(small).notes if "store" in note] == small.warnings


def test_usage_above_the_request_is_kept_and_bounds_only_what_comes_later() -> None:
    made = [one for one in cluster(nodes=1, pods=1) if "cpu_usage" not in one.name]
    labels = {"namespace": "shop", "pod": "web-0-0", "container": "app"}
    burst = START + 43_200
    made.append(Made("container_cpu_usage_seconds_total", labels, lambda at: 3.5 if at >= burst else 1.0))
    with serving(SmallPrometheus(made)) as small:
        cpu = placed(small).traces[TraceResource.CPU]
    assert cpu.usage[[0, -1], 0].tolist() == [1000, 3500]
    assert cpu.limit[[0, 143, 144, -1], 0].tolist() == [2000, 2000, 3500, 3500]


def test_without_requests_it_says_so_and_goes_on() -> None:
    with serving(SmallPrometheus(cluster(requests=False))) as small:
        found = placed(small)
    assert sum("no requests of" in note for note in found.notes) == 2
    cpu = found.traces[TraceResource.CPU]
    assert (cpu.limit >= cpu.usage).all()
    assert not found.requests[TraceResource.CPU].any()


def test_a_node_whose_metrics_end_is_not_there_rather_than_empty() -> None:
    series = [
        replace(one, value=_within(one.value, START, START + DAY // 2))
        if one.name.startswith("container") and one.labels.get("pod", "").startswith("web-1")
        else one
        for one in cluster()
    ]
    with serving(SmallPrometheus(series)) as small:
        found = placed(small)
    assert found.there is not None
    assert found.there[:140].all()
    assert found.there[150:, 0].all()
    assert not found.there[150:, 1].any()
    assert any("no pod with a sample" in note for note in found.notes)
    last = list(found.moments(found.cells))[-1]
    assert found.period(last, np.zeros_like(found.capacity)).known.capacity.tolist()[1] == [0, 0]


def test_a_range_longer_than_the_retention_has_the_days_that_there_are() -> None:
    """`--since 30d` of a server that keeps two days was assessed as 30 days, without the caution of a short history."""
    begin, end = START + 3 * DAY, START + 5 * DAY
    series = [replace(one, value=_within(one.value, begin, end)) for one in cluster()]
    with serving(SmallPrometheus(series)) as small:
        found = placed(small, days=5.5)
    assert found.cells == 2 * DAY // 300
    assert found.any_trace.start_seconds == begin
    assert found.there is not None
    assert found.there.all()
    assert [note for note in found.notes if "only the last 2.5 of the 5.5 days asked for" in note]
    assert [note for note in found.notes if "the last usage is 12.0 hours old" in note]
    assert not [note for note in found.notes if "absent" in note]


def _within(value: Value, begin: float, end: float) -> Value:
    return lambda at: value(at) if begin <= at < end else None


def test_a_short_gap_is_filled_and_a_number_that_is_none_is_a_gap() -> None:
    made = [one for one in cluster(nodes=1, pods=1) if "cpu_usage" not in one.name]
    labels = {"namespace": "shop", "pod": "web-0-0", "container": "app"}
    made.append(
        Made("container_cpu_usage_seconds_total", labels, lambda at: float("nan") if at == START + 900 else 1.0)
    )
    with serving(SmallPrometheus(made)) as small:
        cpu = placed(small).traces[TraceResource.CPU]
    assert cpu.usage[:6, 0].tolist() == [1000.0] * 6


@pytest.mark.parametrize("odd", [-5.0, 1e300])
def test_what_no_node_can_have_is_no_capacity(odd: float) -> None:
    """One exporter with a slip in it neither stops the assessment nor makes a capacity of less than nothing."""
    made = [
        replace(one, value=lambda at: odd) if one.labels.get("unit") and one.labels["node"] == "node-0" else one
        for one in cluster(nodes=2, pods=1)
    ]
    with serving(SmallPrometheus(made)) as small:
        found = placed(small)
    assert found.capacity.tolist() == [[0, 0], [8000, 32 * 2**30]]


def test_null_warnings_are_none(small: SmallPrometheus) -> None:
    small.fails = [(200, '{"status":"success","warnings":null,"data":{"resultType":"matrix","result":[]}}')]
    server, _ = asking(small)
    with server.client:
        assert server.range(PODS, TimeRange(START, START + 300, 300)) == {}
    assert server.warnings == []


def test_finer_and_coarser_steps_fall_into_cells_of_five_minutes(small: SmallPrometheus) -> None:
    fine, coarse = placed(small, days=0.25, step=60), placed(small, days=0.25, step=900)
    assert fine.cells == 72
    assert coarse.cells == 70, "up to the last point"
    assert coarse.traces[TraceResource.CPU].present.all(), "what lies between is filled"
    coarsest = placed(small, days=0.5, step=3600)
    assert coarsest.cells == 133
    assert coarsest.traces[TraceResource.CPU].present.all()
    assert coarsest.there is not None
    assert coarsest.there.all()
    assert np.allclose(fine.traces[TraceResource.CPU].usage[:70], coarse.traces[TraceResource.CPU].usage, rtol=0.1)


def test_a_pod_that_moves_is_another_one_on_its_new_node() -> None:
    made = [one for one in cluster(nodes=2, pods=1) if one.labels.get("pod") != "web-1-0"]
    made = [one for one in made if one.name != "kube_pod_info"]
    for node, there in (("node-0", lambda at: at < START + DAY // 2), ("node-1", lambda at: at >= START + DAY // 2)):
        labels = {"namespace": "shop", "pod": "web-0-0", "node": node, "created_by_kind": "StatefulSet"}
        made.append(Made("kube_pod_info", labels, _while(there)))
    with serving(SmallPrometheus(made)) as small:
        found = placed(small)
    stays = sorted(zip(found.stays.machine, found.stays.begin, found.stays.end, strict=True))
    assert stays == [(0, 0, 144), (1, 144, 288)]


def _while(there: object) -> object:
    return lambda at: 1.0 if there(at) else None  # type: ignore[operator]


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("kube_node_status", "no kube_node_status_allocatable and no …_capacity"),
        ("kube_pod_info", "no kube_pod_info"),
        ("container_cpu", "no usage of cpu by containers; check that cAdvisor is scraped"),
        ("container_memory", "no usage of memory"),
    ],
)
def test_what_is_missing_is_named(without: str, said: str) -> None:
    with (
        serving(SmallPrometheus([one for one in cluster() if not one.name.startswith(without)])) as small,
        pytest.raises(NotFound, match=said),
    ):
        placed(small)


def test_without_allocatable_the_capacity_counts() -> None:
    made = [Made(one.name.replace("allocatable", "capacity"), one.labels, one.value) for one in cluster()]
    with serving(SmallPrometheus(made)) as small:
        found = placed(small)
    assert found.capacity[0].tolist() == [8000, 32 * 2**30]
    assert any("no kube_node_status_allocatable" in note for note in found.notes)


def test_a_span_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--since"):
        TimeRange(10, 5, 60)


def queries(small: SmallPrometheus) -> Sequence[str]:
    return [asked["query"] for asked in small.asked]


def test_eight_queries_are_all_that_is_asked_and_the_rate_is_wide_enough(small: SmallPrometheus) -> None:
    placed(small, step=900)
    assert len(set(queries(small))) == 8
    assert any("[1800s]" in query for query in queries(small))
    assert json.dumps(small.asked)
