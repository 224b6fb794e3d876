"""Restarted containers, several clusters and owners of pods in a Prometheus: nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from asked_prometheus import START, placed
from small_prometheus import Made, SmallPrometheus, cluster, serving

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.simulation.adapters.prometheus_owners import workload_of
from slackwater.simulation.adapters.prometheus_queries import matchers_of
from slackwater.traces.options import TraceResource

GIB = 2**30


def labelled(series: Iterable[Made], **labels: str) -> list[Made]:
    return [replace(one, labels={**one.labels, **labels}) for one in series]


def with_uids(series: Iterable[Made], prefix: str) -> list[Made]:
    return [
        replace(one, labels={**one.labels, "uid": f"{prefix}-{one.labels['pod']}"})
        if one.name == "kube_pod_info"
        else one
        for one in series
    ]


def renamed_nodes(series: Iterable[Made], prefix: str) -> list[Made]:
    return [
        replace(one, labels={**one.labels, "node": prefix + one.labels["node"]}) if "node" in one.labels else one
        for one in series
    ]


def eu(**labels: str) -> list[Made]:
    return labelled(with_uids(cluster(), "eu"), job="ksm", instance="10.0.0.1:8080", **labels)


def us(**labels: str) -> list[Made]:
    return labelled(with_uids(cluster(), "us"), job="ksm", instance="10.9.0.1:8080", **labels)


# ---- restarts


def test_a_restarted_container_counts_once_while_its_old_series_is_still_there() -> None:
    made = [one for one in cluster(nodes=1, pods=1) if not one.name.startswith("container_")]
    for container, gib in (("app", 8), ("sidecar", 1)):
        for run in ("first", "second"):
            who = {"namespace": "shop", "pod": "web-0-0", "container": container, "id": f"/kubepods/{container}/{run}"}
            there = (lambda at: at < START + 3600) if run == "first" else (lambda at: at >= START + 3300)
            for name, amount in (
                ("container_memory_working_set_bytes", gib * GIB),
                ("container_cpu_usage_seconds_total", gib / 8),
            ):
                value = lambda at, there=there, amount=amount: amount if there(at) else None  # noqa: E731
                made.append(Made(name, who, value))
    with serving(SmallPrometheus(made)) as small:
        found = placed(small, days=0.1)
    assert set(found.traces[TraceResource.MEMORY].usage[:, 0].tolist()) == {9 * GIB}
    assert set(found.traces[TraceResource.CPU].usage[:, 0].tolist()) == {1125.0}


# ---- clusters


@pytest.mark.parametrize("label", ["cluster", "k8s_cluster_name", "env", "region", "datacenter"])
@pytest.mark.parametrize("same_nodes", [True, False])
def test_two_clusters_are_refused_with_the_values_of_their_label(label: str, same_nodes: bool) -> None:
    made = [
        *eu(**{label: "eu-1"}),
        *(us(**{label: "us-1"}) if same_nodes else renamed_nodes(us(**{label: "us-1"}), "us-")),
    ]
    with serving(SmallPrometheus(made)) as small, pytest.raises(InvalidInput) as refused:
        placed(small)
    assert refused.value.field == "selector"
    assert f"{label}: eu-1, us-1" in refused.value.message
    assert f"--selector '{label}=\"eu-1\"'" in refused.value.message
    with serving(SmallPrometheus(made)) as small, serving(SmallPrometheus(cluster())) as alone:
        found, wanted = placed(small, selector=f'{label}="us-1"'), placed(alone)
    assert len(found.nodes) == len(wanted.nodes)
    assert f'{{{label}="us-1"}}' in found.notes[0]
    for each in TraceResource:
        assert found.traces[each].usage.tolist() == wanted.traces[each].usage.tolist()
        assert found.requests[each].tolist() == wanted.requests[each].tolist()


def test_a_cluster_whose_series_have_no_label_is_another_one() -> None:
    made = [*eu(), *renamed_nodes(us(cluster="us-1"), "us-")]
    with serving(SmallPrometheus(made)) as small, pytest.raises(InvalidInput, match=r"cluster: \(none\), us-1"):
        placed(small)


def test_pods_of_one_name_tell_clusters_apart_by_their_targets() -> None:
    with (
        serving(SmallPrometheus([*eu(), *us()])) as small,
        pytest.raises(InvalidInput, match=r"instance: 10\.0\.0\.1:8080"),
    ):
        placed(small)


def test_replicas_of_exporters_and_of_prometheus_are_one_cluster() -> None:
    made = [
        one
        for replica in ("a", "b")
        for one in labelled(
            with_uids(cluster(), "eu"), instance=f"{replica}:8080", prometheus_replica=replica, cluster="eu-1"
        )
    ]
    with serving(SmallPrometheus(made)) as small, serving(SmallPrometheus(cluster())) as alone:
        assert placed(small).requests[TraceResource.CPU].tolist() == placed(alone).requests[TraceResource.CPU].tolist()


def test_shards_of_an_exporter_and_labels_of_namespaces_are_no_clusters() -> None:
    """A shard exports a part of the pods of each node; a label that was joined differs within one target."""
    made = []
    for one in with_uids(cluster(), "eu"):
        shard = one.labels.get("pod", "-0")[-1]
        made.append(replace(one, labels={**one.labels, "instance": f"{shard}:8080", "shard": shard}))
    with serving(SmallPrometheus(made)) as small:
        assert placed(small).traces[TraceResource.CPU].series == 6
    joined = [
        replace(one, labels={**one.labels, "instance": "a:8080", "zone": one.labels["node"]})
        if one.name == "kube_pod_info"
        else one
        for one in with_uids(cluster(), "eu")
    ]
    with serving(SmallPrometheus(joined)) as small:
        assert placed(small).traces[TraceResource.CPU].series == 6


def test_a_selector_that_matches_nothing_is_named() -> None:
    with serving(SmallPrometheus(eu(cluster="eu-1"))) as small, pytest.raises(NotFound, match=r'\{cluster="mars"\}'):
        placed(small, selector='cluster="mars"')


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ('cluster="eu-1"', 'cluster="eu-1"'),
        ('{cluster="eu-1", env!~"test|dev"}', 'cluster="eu-1", env!~"test|dev"'),
        ('a="b\\"c",', 'a="b\\"c"'),
        ("cluster='eu-1'", "cluster='eu-1'"),
        ("{cluster=`eu\\d`, env='it\\'s'}", "cluster=`eu\\d`, env='it\\'s'"),
        ("", ""),
    ],
)
def test_a_selector_is_label_matchers(text: str, matchers: str) -> None:
    assert matchers_of(text) == matchers


@pytest.mark.parametrize(
    "text",
    ["eu-1", "cluster=eu-1", 'cluster="a"} or up{', 'cluster="a', 'cluster="a" "b"', "a='b\"", "a=`b``"],
)
def test_what_is_no_label_matcher_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--selector"):
        matchers_of(text)


# ---- owners


@pytest.mark.parametrize(
    ("kind", "creator", "workload"),
    [
        ("ReplicaSet", "web-5f6d8c7b9", "shop/Deployment/web"),
        ("ReplicaSet", "web-blue-7d4b9", "shop/ReplicaSet/web-blue-7d4b9"),
        ("ReplicaSet", "shop-web", "shop/ReplicaSet/shop-web"),
        ("ReplicaSet", "shop-db", "shop/ReplicaSet/shop-db"),
        ("ReplicaSet", "api-v2", "shop/ReplicaSet/api-v2"),
        ("Job", "report-29010030", "shop/CronJob/report"),
        ("Job", "report-1764460800", "shop/CronJob/report"),
        ("Job", "migration-42", "shop/Job/migration-42"),
        ("Job", "report-20261130", "shop/Job/report-20261130"),
        ("Job", "etl-2026113006", "shop/Job/etl-2026113006"),
        ("StatefulSet", "db", "shop/StatefulSet/db"),
        ("DaemonSet", "agent", "shop/DaemonSet/agent"),
        ("Node", "node-1", "shop/Pod/x"),
        ("<none>", "<none>", "shop/Pod/x-node-1"),
        ("", "", "shop/Pod/x-node-1"),
    ],
)
def test_a_workload_outlives_its_pods_and_keeps_its_own_name(kind: str, creator: str, workload: str) -> None:
    labels = {"namespace": "shop", "pod": "x-node-1", "created_by_kind": kind, "created_by_name": creator}
    assert workload_of(labels, {}) == workload


def test_owners_that_are_scraped_decide() -> None:
    made = [one for one in cluster(nodes=1, pods=4) if one.name != "kube_pod_info"]
    creators = {
        "shop-web": ("<none>", "<none>"),
        "shop-99999f": ("<none>", "<none>"),
        "pay-5f6d8c7b9": ("Rollout", "pay"),
        "web-abc": ("Deployment", "web"),
    }
    for pod, (creator, owner) in enumerate(creators.items()):
        info = {"namespace": "shop", "pod": f"web-0-{pod}", "node": "node-0", "created_by_kind": "ReplicaSet"}
        made.append(Made("kube_pod_info", {**info, "created_by_name": creator}, lambda at: 1.0))
        labels = {"namespace": "shop", "replicaset": creator, "owner_kind": owner[0], "owner_name": owner[1]}
        made.append(Made("kube_replicaset_owner", labels, lambda at: 1.0))
    with serving(SmallPrometheus(made)) as small:
        trace = placed(small).traces[TraceResource.CPU]
    assert sorted(trace.workloads) == [
        "shop/Deployment/web",
        "shop/ReplicaSet/shop-99999f",
        "shop/ReplicaSet/shop-web",
        "shop/Rollout/pay",
    ]
