"""What a pod of Kubernetes is to the agent: tier, class, workload, request, and what isolates it. Names of cgroups."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.pods import container, container_id, new_uid, node_pod

from slackwater.agent.domain import kubelet_cgroups as cgroups
from slackwater.agent.domain.kubelet import (
    EVICTION_MARKS,
    ContainerShare,
    in_force,
    limited_containers,
    pod_of,
    request_of,
    resized,
    share_of,
    tier_of,
)
from slackwater.agent.domain.protected_pods import protection_reason
from slackwater.agent.domain.weights import MAX_SHARES, MIN_SHARES
from slackwater.apiserver.node_pods import effective, parse_node_pod
from slackwater.apiserver.pod_details import status_of
from slackwater.apiserver.records import parse_controller, parse_pod
from slackwater.apiserver.workloads import workload_by_names, workload_of
from slackwater.descheduling import evictability
from slackwater.descheduling.pod_order import DELETION_COST
from slackwater.model.pods import PodStatus
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

MIB = 1 << 20


def parsed(*containers: dict[str, Any], **more: Any) -> Any:
    return parse_node_pod(node_pod("pod", *containers, **more))


@pytest.mark.parametrize(
    ("more", "tier"),
    [
        ({"labels": {"slackwater.io/tier": "mid"}, "priority": 5500}, Tier.MID),
        ({"labels": {"koordinator.sh/priority-class": "free"}}, Tier.FREE),
        ({"labels": {"slackwater.io/tier": "golden"}, "priority": 9100}, Tier.PROD),
        ({"priority": 3000}, Tier.FREE),
        ({"priority": 2_000_001_000}, Tier.PROD),
        ({"labels": {"slackwater.io/qos": "BE"}, "qos_class": "Burstable"}, Tier.BATCH),
        ({"labels": {"koordinator.sh/qosClass": "LSR"}}, Tier.PROD),
        ({"qos_class": "BestEffort"}, Tier.BATCH),
        ({"qos_class": "Burstable"}, Tier.PROD),
        ({"qos_class": "Guaranteed"}, Tier.PROD),
    ],
)
def test_the_tier_is_that_of_label_priority_or_class_in_this_order(more: dict[str, Any], tier: Tier) -> None:
    assert tier_of(parsed(**more)) is tier


def test_a_pod_without_label_and_priority_is_of_the_tier_that_it_borrows() -> None:
    assert tier_of(parsed(container(mid_cpu="500"), labels={"slackwater.io/qos": "BE"})) is Tier.MID
    assert tier_of(parsed(container(batch_memory="1Gi"))) is Tier.BATCH


def test_a_pod_is_described_with_what_planners_read() -> None:
    found = pod_of(
        parsed(
            container(batch_cpu="2k", batch_memory="1Gi"),
            labels={"app": "crunch", "slackwater.io/protected": "agent"},
            annotations={"slackwater.io/eviction-priority": "7", "unrelated": "x"},
            priority=5500,
        )
    )
    assert (found.tier, found.qos, found.request) == (Tier.BATCH, QoSClass.BE, Resources(2000, 1 << 30))
    assert found.labels == {"app": "crunch", "slackwater.io/eviction-priority": "7"}, "only the agent protects"
    assert found.started_at.isoformat() == "2026-01-01T00:00:01+00:00"


def test_the_agent_static_pods_and_the_system_are_protected() -> None:
    own = parsed()
    assert protection_reason(pod_of(own, own.uid)) == "the agent itself runs in this pod"
    mirror = parsed(annotations={"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "0" * 32})
    assert protection_reason(pod_of(mirror)) == "static pods are never touched"
    assert mirror.kubelet_uid == "0" * 32
    assert protection_reason(pod_of(parsed(priority=2_000_000_000))) is not None
    assert protection_reason(pod_of(parsed())) is None


def test_a_time_that_is_none_is_long_ago() -> None:
    document = node_pod("pod")
    document["status"]["startTime"] = "yesterday"
    assert pod_of(parse_node_pod(document)).started_at.year == 1970


# ---- what isolates


def test_a_pod_gets_the_sum_of_what_its_containers_borrowed() -> None:
    share = share_of(
        parsed(
            container("a", batch_cpu="1500", batch_memory="1Gi"), container("b", batch_cpu="500", batch_memory="64Mi")
        )
    )
    assert share is not None
    assert (share.shares, share.cpu_milli, share.memory_bytes) == (2048, 2000, (1024 + 64) * MIB)
    assert share.containers == {"a": ContainerShare(1536, 1 << 30), "b": ContainerShare(512, 64 * MIB)}


def test_a_container_without_a_limit_leaves_the_pod_without_one() -> None:
    """As the peer has it (koordinator#1218): nothing then says what the whole pod may use."""
    share = share_of(parsed(container("a", batch_cpu="1500", batch_memory="1Gi"), container("sidecar", cpu="100m")))
    assert share is not None
    assert (share.cpu_milli, share.memory_bytes, share.shares) == (None, None, 1638)
    assert list(share.containers) == ["a"], "the kubelet has given the other what it asked for"


def test_the_smallest_amounts_are_what_the_kernel_takes() -> None:
    share = share_of(parsed(container(batch_cpu="1")))
    assert share is not None
    assert (share.shares, share.cpu_milli) == (MIN_SHARES, 1)


def test_what_borrows_nothing_is_left_to_the_kubelet() -> None:
    assert share_of(parsed(container(cpu="1", cpu_limit="2"), qos_class="Burstable")) is None
    assert share_of(parsed(priority=5500)) is None


def test_cpu_may_be_left_to_weights() -> None:
    share = share_of(parsed(container(batch_cpu="2k", batch_memory="1Gi")), limits_cpu=False)
    assert share is not None
    assert (share.shares, share.cpu_milli, share.memory_bytes) == (2048, None, 1 << 30)


def test_own_names_and_aliases_are_one_resource() -> None:
    both = container(batch_cpu="2k")
    for part in ("requests", "limits"):
        both["resources"][part]["kubernetes.io/batch-cpu"] = "3k"
    assert request_of(parsed(both)).cpu_milli == 3000
    share = share_of(parsed(both))
    assert share is not None
    assert share.cpu_milli == 3000


amounts = st.integers(1, 10_000)
CONTAINERS = st.lists(st.tuples(amounts, amounts, st.sampled_from(["main", "init", "sidecar"])), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(CONTAINERS)
def test_a_pod_may_use_what_the_scheduler_counted_for_it(drawn: list[tuple[int, int, str]]) -> None:
    """Extended resources have limits equal to requests, so the pod's limit is its request, and no container's is
    more."""
    inits, mains = list[dict[str, Any]](), [container("first", batch_cpu="1", batch_memory="64Ki")]
    for number, (cpu, memory, kind) in enumerate(drawn):
        made = container(f"c{number}", batch_cpu=str(cpu), batch_memory=f"{memory}Ki")
        if kind == "main":
            mains.append(made)
        else:
            inits.append({**made, "restartPolicy": "Always"} if kind == "sidecar" else made)
    pod = parsed(*mains, initContainers=inits)
    share = share_of(pod)
    assert share is not None
    assert Resources(share.cpu_milli or 0, share.memory_bytes or 0) == request_of(pod)
    assert dict(pod.record.borrowed) == {
        name: amount for name, amount in effective(pod.containers).items() if "/" in name
    }, "as the scheduler counts"
    assert MIN_SHARES <= share.shares <= MAX_SHARES
    assert all(one.shares <= share.shares for one in share.containers.values())
    assert all((one.memory_bytes or 0) <= (share.memory_bytes or 0) for one in share.containers.values())


def test_a_resize_is_seen_from_what_the_kubelet_says_and_its_first_word_is_none() -> None:
    before = in_force(parsed(running={"main": f"containerd://{container_id(1)}"}))
    one = in_force(
        parsed(running={"main": f"containerd://{container_id(1)}"}, resources={"main": {"limits": {"cpu": "1"}}})
    )
    two = in_force(
        parsed(running={"main": f"containerd://{container_id(1)}"}, resources={"main": {"limits": {"cpu": "2"}}})
    )
    assert [resized(before, one), resized(one, one), resized(one, two), resized(two, {})] == [False, False, True, False]


def test_containers_with_a_limit_of_the_kubelet_are_known() -> None:
    assert limited_containers(
        parsed(container("a", cpu_limit="1"), container("b", cpu="1"), container("c", batch_cpu="5"))
    ) == ("a",)


# ---- workloads


def owned(kind: str, name: str, group: str = "apps/v1", **more: Any) -> Any:
    return parse_pod(node_pod("pod", owner={"kind": kind, "name": name, "apiVersion": group}, **more))


def test_workloads_by_names_are_those_by_owners() -> None:
    hashed = owned("ReplicaSet", "web-5f6d8c9b7", labels={"pod-template-hash": "5f6d8c9b7"})
    deployment = {"controller": True, "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"}
    replicas = parse_controller(
        {"metadata": {"name": "web-5f6d8c9b7", "namespace": "default", "uid": "o", "ownerReferences": [deployment]}}
    )
    controllers = {"replicasets": {replicas.key: replicas}, "jobs": {}}
    assert workload_by_names(hashed) == workload_of(hashed, controllers).key == "default/Deployment/web"


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (parse_pod(node_pod("lone")), "default/Pod/lone"),
        (owned("ReplicaSet", "by-hand"), "default/ReplicaSet/by-hand"),
        (owned("ReplicaSet", "by-hand", labels={"pod-template-hash": "other"}), "default/ReplicaSet/by-hand"),
        (owned("StatefulSet", "db"), "default/StatefulSet/db"),
        (owned("Job", "report-29384756", "batch/v1"), "default/CronJob/report"),
        (owned("Job", "report", "batch/v1"), "default/Job/report"),
        (owned("Node", "worker-1", "v1"), "default/Pod/pod"),
        (owned("SparkApplication", "pi", "spark/v1"), "default/SparkApplication/pi"),
    ],
)
def test_a_workload_survives_its_pods(pod: Any, key: str) -> None:
    assert workload_by_names(pod) == key


# ---- names of cgroups


UID = "9f1c2d3e-aaaa-4bbb-8ccc-0123456789ab"


def test_pods_are_looked_for_where_both_drivers_put_every_class() -> None:
    assert set(cgroups.pod_cgroups(UID)) == {
        f"kubepods/pod{UID}",
        f"kubepods/burstable/pod{UID}",
        f"kubepods/besteffort/pod{UID}",
        f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
    }
    assert f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice" in set(
        cgroups.pod_cgroups(UID, ("kubelet",))
    )


@pytest.mark.parametrize("uid", ["../../system.slice", "", "x", f"{UID}/..", "pod"])
def test_a_uid_that_is_no_name_leads_nowhere(uid: str) -> None:
    assert list(cgroups.pod_cgroups(uid)) == []
    assert cgroups.container_cgroups("containerd", uid) == ()


@pytest.mark.parametrize(
    ("runtime", "names"),
    [
        ("containerd", ("cri-containerd-{}.scope", "cri-containerd-{}", "{}")),
        ("cri-o", ("crio-{}.scope", "crio-{}", "{}")),
        ("docker", ("docker-{}.scope", "docker-{}", "{}")),
        ("other", ("{}",)),
    ],
)
def test_containers_have_the_names_of_their_runtime(runtime: str, names: tuple[str, ...]) -> None:
    assert cgroups.container_cgroups(runtime, container_id(7)) == tuple(name.format(container_id(7)) for name in names)


@given(st.sampled_from(["", "kubelet", "a-b"]), st.booleans(), st.integers(0, 2))
def test_only_what_lies_below_a_pod_may_be_written(root: str, systemd: bool, qos: int) -> None:
    names = [*filter(None, (root, "kubepods", cgroups.QOS_CGROUPS[qos]))]
    path_of = cgroups.systemd_path if systemd else cgroups.cgroupfs_path
    above = [f"/sys/fs/cgroup/cpu/{path_of(names[:depth])}/cpu.shares" for depth in range(1, len(names) + 1)]
    below = f"/sys/fs/cgroup/cpu/{path_of([*names, f'pod{new_uid()}'])}"
    assert not any(map(cgroups.is_below_a_pod, above))
    assert cgroups.is_below_a_pod(f"{below}/cpu.shares")
    assert cgroups.is_below_a_pod(f"{below}/cri-containerd-{container_id(1)}.scope/cpu.shares")
    assert re.fullmatch(r"[a-z0-9_./-]+", below)


# ---- what it reports of a pod beyond its usage


def status(**fields: Any) -> PodStatus | None:
    return status_of({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **fields}})


NOT_READY = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
CRASHING = {"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def test_a_pod_that_runs_well_has_no_status() -> None:
    assert status() is None
    assert status(containerStatuses=[{"restartCount": 0, "state": {"running": {}}}]) is None
    assert status(initContainerStatuses=[{"restartCount": 4}]) is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"conditions": []}, PodStatus(ready=False)),
        ({"conditions": NOT_READY}, PodStatus(ready=False, reason="ContainersNotReady")),
        ({"containerStatuses": [{"restartCount": 2}, {"restartCount": 3}]}, PodStatus(restarts=5)),
        (
            {"conditions": NOT_READY, "containerStatuses": [{"restartCount": 1}, CRASHING]},
            PodStatus(ready=False, restarts=8, reason="CrashLoopBackOff"),
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "conditions": NOT_READY},
            PodStatus(ready=False, phase="Failed", reason="Evicted"),
        ),
        (
            {
                "phase": "Failed",
                "conditions": [],
                "containerStatuses": [{"restartCount": 0, "state": {"terminated": {"reason": "OOMKilled"}}}],
            },
            PodStatus(ready=False, phase="Failed", reason="OOMKilled"),
        ),
    ],
)
def test_readiness_restarts_and_failures_are_those_of_its_status(fields: dict[str, Any], expected: PodStatus) -> None:
    assert status(**fields) == expected


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    document = node_pod("pod")
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = status_of(document)
    assert found is not None
    assert found.terminating


def test_marks_that_protect_a_pod_from_moves_are_reported_as_labels() -> None:
    marks = {*evictability.EVICTION_COSTS, *evictability.DO_NOT_DISRUPT, *evictability.EVICT}
    assert set(EVICTION_MARKS) == marks | {evictability.SAFE_TO_EVICT, DELETION_COST}
    found = pod_of(parsed(annotations={"karpenter.sh/do-not-disrupt": "true", "other": "x"}))
    assert found.labels == {"karpenter.sh/do-not-disrupt": "true"}
