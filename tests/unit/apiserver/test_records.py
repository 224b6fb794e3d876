"""What is read of objects: requests as the scheduler counts them, ownership of fields, and hostile documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.apiserver.node_pods import effective, parse_node_pod
from slackwater.apiserver.records import KINDS, parse_node, parse_pod
from slackwater.model.quantities import Resources

CPU, MEMORY = "slackwater.io/batch-cpu", "slackwater.io/batch-memory"


def container(requests: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}, **more}


def pod(spec: dict[str, Any]) -> Any:
    return parse_pod({"metadata": {"namespace": "a", "name": "b"}, "spec": spec})


def test_containers_add_up_and_the_largest_init_container_counts_alone() -> None:
    spec = {
        "initContainers": [container({"cpu": "3", "memory": "1Gi"}), container({"cpu": "1", "memory": "2Gi"})],
        "containers": [container({"cpu": "500m", CPU: "1500"}), container({"cpu": "1", CPU: "2k", MEMORY: "1Gi"})],
        "overhead": {"cpu": "250m"},
    }
    read = pod(spec)
    assert read.request == Resources(3_250, 2 << 30)
    assert read.borrowed == ((CPU, 3_500), (MEMORY, 1 << 30))


def test_sidecars_run_beside_containers_and_later_init_containers() -> None:
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    spec = {"initContainers": [sidecar, container({"cpu": "2"})], "containers": [container({"cpu": "500m"})]}
    assert pod(spec).request.cpu_milli == 3_000
    spec["initContainers"].reverse()
    assert pod(spec).request.cpu_milli == 2_000


def test_requests_of_the_whole_pod_go_before_those_of_containers() -> None:
    spec = {"resources": {"requests": {"cpu": "4"}}, "containers": [container({"cpu": "1", "memory": "1Gi"})]}
    assert pod(spec).request == Resources(4_000, 1 << 30)


def test_limits_of_extended_resources_count_as_requests() -> None:
    assert pod({"containers": [{"resources": {"limits": {CPU: "2k"}}}]}).borrowed == ((CPU, 2_000),)


AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 8), "memory": st.integers(1, 8)})


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=3), st.booleans())
def test_a_resize_counts_the_largest_of_wanted_set_aside_and_given(
    parts: list[tuple[dict[str, int], dict[str, int], dict[str, int]]], sidecars: bool
) -> None:
    """Both readers: of the whole cluster, and of an agent's node."""

    def written(amounts: dict[str, int]) -> dict[str, str]:
        return {name: f"{amount}{'Gi' if name == 'memory' else ''}" for name, amount in amounts.items()}

    always = {"restartPolicy": "Always"} if sidecars else {}
    containers = [{**container(written(one), **always), "name": f"c{n}"} for n, (one, _, _) in enumerate(parts)]
    states = [
        {"name": f"c{n}", "allocatedResources": written(aside), "resources": {"requests": written(given)}}
        for n, (_, aside, given) in enumerate(parts)
    ]
    place, told = ("initContainers", "initContainerStatuses") if sidecars else ("containers", "containerStatuses")
    document = {"metadata": {"namespace": "a", "name": "b"}, "spec": {place: containers}, "status": {told: states}}
    cpu, memory = (sum(max(one.get(name, 0) for one in each) for each in parts) for name in ("cpu", "memory"))
    assert parse_pod(document).request == Resources(cpu * 1000, memory << 30)
    held = effective(parse_node_pod(document).containers)
    assert (held.get("cpu", 0), held.get("memory", 0)) == (cpu * 1000, memory << 30)


@pytest.mark.parametrize(("reason", "cpu"), [("Infeasible", 2_000), ("Deferred", 100_000), ("", 100_000)])
@pytest.mark.parametrize("sidecar", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_resize_that_the_node_can_never_carry_out_does_not_count(
    reason: str, cpu: int, sidecar: bool, whole: bool
) -> None:
    """From 2 CPUs to 100; and of the pod as a whole. Lent amounts cannot be resized, and are the spec's."""
    large = {"requests": {"cpu": "100", "memory": "1Gi", CPU: "500"}, "limits": {"cpu": "100", CPU: "500"}}
    small = {"cpu": "2", "memory": "1Gi"}
    one = {"name": "c", "resources": large, **({"restartPolicy": "Always"} if sidecar else {})}
    state = {"name": "c", "allocatedResources": small, "resources": {"requests": small, "limits": {"cpu": "2"}}}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodResizePending", "status": "True", "reason": reason}]
    place, told = ("initContainers", "initContainerStatuses") if sidecar else ("containers", "containerStatuses")
    spec: dict[str, Any] = {place: [one]}
    status: dict[str, Any] = {"conditions": conditions, told: [state]}
    if whole:
        spec["resources"] = {"requests": {"cpu": "100", "memory": "1Gi"}}
        status |= {"allocatedResources": small, "resources": {"requests": small}}
    document = {"metadata": {"namespace": "a", "name": "b"}, "spec": spec, "status": status}
    assert parse_pod(document).request == Resources(cpu, 1 << 30)
    assert parse_pod(document).borrowed == ((CPU, 500),)
    (read,) = parse_node_pod(document).containers
    assert (read.requests["cpu"], read.limits["cpu"]) == (cpu, cpu)


def test_an_infeasible_resize_of_a_container_without_a_state_counts_its_spec() -> None:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    document = {"metadata": {"name": "b"}, "spec": {"containers": containers}, "status": {"conditions": conditions}}
    assert parse_pod(document).request.cpu_milli == 3_000


def test_a_limit_counts_as_given_until_it_is_lower_in_fact() -> None:
    """From 4 CPUs to 1; and of the pod as a whole."""
    one = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
    state = {"name": "c", "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}}
    document = {
        "metadata": {"namespace": "a", "name": "b"},
        "spec": {"containers": [one]},
        "status": {"containerStatuses": [state]},
    }
    (read,) = parse_node_pod(document).containers
    assert (read.requests, read.limits) == ({"cpu": 4_000}, {"cpu": 4_000})
    document["spec"]["resources"] = {"requests": {"cpu": "2"}}  # type: ignore[index]
    assert parse_pod(document).request.cpu_milli == 2_000
    document["status"]["allocatedResources"] = {"cpu": "3"}  # type: ignore[index]
    assert parse_pod(document).request.cpu_milli == 3_000


@pytest.mark.parametrize(
    ("manager", "operation", "part"),
    [("kubelet", "Apply", "status"), ("slackwater", "Update", "status"), ("slackwater", "Apply", "")],
)
def test_only_what_slackwater_applied_to_the_status_is_owned(manager: str, operation: str, part: str) -> None:
    fields = {"f:status": {"f:allocatable": {f"f:{CPU}": {}, "f:cpu": {}}}}
    entry = {"manager": manager, "operation": operation, "subresource": part, "fieldsV1": fields}
    own = {"manager": "slackwater", "operation": "Apply", "subresource": "status", "fieldsV1": fields}
    amounts = {"cpu": "4", "memory": "8Gi", CPU: "12k", "nvidia.com/gpu": "1"}
    document = {"metadata": {"name": "n", "managedFields": [entry]}, "status": {"allocatable": amounts}}
    node = parse_node(document)
    assert (node.allocatable, node.lent, node.owned) == (Resources(4_000, 8 << 30), ((CPU, 12_000),), frozenset())
    document["metadata"]["managedFields"].append(own)  # type: ignore[index]
    assert parse_node(document).owned == {CPU}


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["1Gi", "2k", "Always"])
_NAMES = st.sampled_from(
    [
        *(
            "spec",
            "status",
            "metadata",
            "labels",
            "ownerReferences",
            "controller",
            "containers",
            "resources",
            "requests",
        ),
        *("allocatable", "managedFields", "fieldsV1", "f:status", CPU, "cpu", "value", "selector", "initContainers"),
    ]
)
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner), max_leaves=20
)


@given(st.dictionaries(_NAMES, _DOCUMENTS), st.sampled_from(KINDS))
def test_no_document_with_a_name_breaks_a_reader(document: dict[str, Any], kind: Any) -> None:
    metadata = document.get("metadata")
    document["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "name": "x"}
    assert kind.parse(document).key == "x"
