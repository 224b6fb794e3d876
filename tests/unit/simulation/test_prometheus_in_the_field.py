"""Inputs of a Prometheus as reports of the field have them: restarts, clusters, owners."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asked_prometheus import START, placed
from small_prometheus import Made, SmallPrometheus, cluster, serving

from slackwater.model.errors import InvalidInput
from slackwater.traces.options import TraceResource

GIB = 2**30
MIB = 2**20


def without_usage() -> list[Made]:
    """One pod of one node that nothing has measured."""
    return [series for series in cluster(nodes=1, pods=1) if not series.name.startswith("container_")]


def container(name: str, amount: float, begin: float = 0, end: float = 10**12, **labels: str) -> Made:
    """Usage of one container from `begin` to `end`, in seconds of the range."""
    identity = {"namespace": "shop", "pod": "web-0-0", "container": "app", **labels}
    return Made(name, identity, lambda at: amount if START + begin <= at < START + end else None)


def memory(amount: float, begin: float = 0, end: float = 10**12, **labels: str) -> Made:
    return container("container_memory_working_set_bytes", amount, begin, end, **labels)


def cpu(cores: float, begin: float = 0, end: float = 10**12, **labels: str) -> Made:
    return container("container_cpu_usage_seconds_total", cores, begin, end, **labels)


def renamed(series: list[Made], **renames: str) -> list[Made]:
    """Series whose values of these labels begin with another text."""
    return [
        replace(made, labels={name: renames.get(name, "") + value for name, value in made.labels.items()})
        for made in series
    ]


RESTARTED = {
    "a crash loop: four runs of one container within the five minutes that series outlive it": (
        [memory(2 * GIB, 60 * run, 60 * run + 600, id=f"/run/{run}") for run in range(4)]
        + [memory(2 * GIB, 240, id="/run/4"), cpu(0.5, id="/run/4")],
        (500.0, 2 * GIB),
    ),
    "the kubelet's upgrade: CPU as a total and by processor at once": (
        [
            cpu(1.0, cpu="total", id="/a"),
            *(cpu(0.5, cpu=f"cpu0{number}", id="/a") for number in range(2)),
            memory(GIB, id="/a"),
        ],
        (1000.0, GIB),
    ),
    "two scrapes of one container that name its cgroup differently": (
        [
            made
            for path in ("/kubepods/a", "/kubepods.slice/a.scope")
            for made in (cpu(1, id=path), memory(GIB, id=path))
        ],
        (1000.0, GIB),
    ),
    "cAdvisor and the kubelet's summary by two jobs, one of them with processors": (
        [cpu(1.0, job="kubelet", cpu="total", id="/a"), memory(GIB, job="kubelet", id="/a")]
        + [cpu(0.25, job="cadvisor", cpu=f"cpu0{number}", id="/a") for number in range(4)]
        + [memory(GIB, job="cadvisor", id="/a")],
        (1000.0, GIB),
    ),
    "a container and the cgroups above it, which carry the labels of the pod": (
        [
            cpu(1.0, id="/a"),
            memory(GIB, id="/a"),
            cpu(1.0, container="", id="/pod"),
            memory(GIB, container="POD", id="/pause"),
            memory(GIB, pod="", id="/"),
        ],
        (1000.0, GIB),
    ),
}


@pytest.mark.parametrize("name", RESTARTED)
def test_what_one_container_uses_counts_once(name: str) -> None:
    made, (milli, bytes_used) = RESTARTED[name]
    with serving(SmallPrometheus([*without_usage(), *made])) as small:
        traces = placed(small, days=0.1).traces
    assert set(traces[TraceResource.CPU].usage[:, 0].tolist()) <= {milli, 0.0}
    assert max(traces[TraceResource.CPU].usage[:, 0].tolist()) == milli
    assert set(traces[TraceResource.MEMORY].usage[:, 0].tolist()) == {float(bytes_used)}


def of_cluster(label: str, value: str, **renames: str) -> list[Made]:
    """A cluster whose series have a label; its targets are its own."""
    series = renamed(cluster(), **renames)
    uid = lambda made: {"uid": f"{value}-{made.labels['pod']}"} if made.name == "kube_pod_info" else {}  # noqa: E731
    labels = {"job": "ksm", "instance": f"{value}:8080"} | ({label: value} if value else {})
    return [replace(made, labels={**made.labels, **labels, **uid(made)}) for made in series]


SEVERAL = {
    "machines of one name in both, as kind and k3d name them": ("cluster", ["eu", "us"], ("", "blue-")),
    "three, one of them from before the label was set": ("cluster", ["", "eu", "us"], ("", "b-", "c-")),
    "a label of the cloud": ("cluster_name", ["eu", "us"], ("", "blue-")),
    "a label of the agent that writes remotely": ("k8s_cluster_name", ["eu", "us"], ("", "blue-")),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_clusters_are_told_apart_where_their_machines_have_the_same_names(name: str) -> None:
    label, values, prefixes = SEVERAL[name]
    made = [
        series
        for value, prefix in zip(values, prefixes, strict=True)
        for series in of_cluster(label, value, **({"pod": prefix} if prefix else {}))
    ]
    shown = ", ".join(value or r"\(none\)" for value in values)
    with serving(SmallPrometheus(made)) as small, pytest.raises(InvalidInput, match=f"{label}: {shown}"):
        placed(small)


def test_a_cluster_that_was_renamed_is_one() -> None:
    """Each pod has had both values of the label, one after the other."""
    half = START + 43_200
    made = []
    for value, has in (("old", lambda at: at < half), ("new", lambda at: at >= half)):
        for series in of_cluster("cluster", "x"):
            shown = lambda at, series=series, has=has: series.value(at) if has(at) else None  # noqa: E731
            made.append(Made(series.name, {**series.labels, "cluster": value}, shown))
    with serving(SmallPrometheus(made)) as small, serving(SmallPrometheus(cluster())) as alone:
        found, expected = placed(small), placed(alone)
    assert found.traces[TraceResource.MEMORY].usage.tolist() == expected.traces[TraceResource.MEMORY].usage.tolist()
