"""The API server makes of pods by the generated policy what slackwater.profiles.mutation makes of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.kubernetes.rest import Rest, wait_until

from slackwater.profiles.mutation import milli, mutate_all, number
from slackwater.profiles.policy import mutation_objects
from slackwater.profiles.profile import ClusterColocationProfile

PATHS = {
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
}
CLASSES = {"prod": ("sw-prod", 9500), "mid": ("sw-mid", 7500), "batch": ("sw-batch", 5500), "free": ("sw-free", 3500)}
"""PriorityClass and value, by tier."""
RUN = uuid.uuid4().hex[:8]
PLAIN = f"profiles-plain-{RUN}"
LIMITED = f"profiles-limited-{RUN}"
NAMESPACES: Mapping[str, Mapping[str, str]] = {f"profiles-blue-{RUN}": {"team": "blue"}, PLAIN: {}, LIMITED: {}}
"""Labels by name, which is new in every run: without its controller the API server does not end a deleted one."""
CASES = 24
"""Profiles of one policy; pods choose some of them by label."""

LABELS = st.dictionaries(st.sampled_from(["app", "team", "x.io/a"]), st.sampled_from(["a", "b"]), max_size=3)
OPERATORS: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(["a", "b", "blue"]), min_size=1, max_size=2)),
    st.tuples(st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)
EXPRESSIONS = st.lists(
    st.builds(
        lambda key, pair: {"key": key, "operator": pair[0], "values": pair[1]},
        st.sampled_from(["app", "team", "x.io/a"]),
        OPERATORS,
    ),
    max_size=1,
)


@st.composite
def profiles(draw: st.DrawFn) -> list[ClusterColocationProfile]:
    """One per case; each selects pods that have its label."""
    return [draw(profile_of(case)) for case in range(CASES)]


@st.composite
def profile_of(draw: st.DrawFn, case: int) -> ClusterColocationProfile:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {f"case-{case}": "yes"}, "matchExpressions": draw(EXPRESSIONS)},
        "probability": draw(st.sampled_from([100, 100, 100, 50, 0, 7])),
        "labels": draw(LABELS),
        "annotations": draw(st.dictionaries(st.sampled_from(["n/a", "b"]), st.sampled_from(["1", "it's \\ so", ""]))),
        "labelKeysMapping": draw(
            st.dictionaries(st.sampled_from(["app", "team"]), st.sampled_from(["copy", "y.io/c"]))
        ),
        "annotationKeysMapping": draw(st.dictionaries(st.sampled_from(["note", "n/a"]), st.just("noted"))),
    }
    if draw(st.integers(0, 3)) == 0:
        spec["namespaceSelector"] = {"matchLabels": {"team": "blue"}}
    spec["limitedNamespaces"] = draw(st.sampled_from(["skip", "keep-resources", "apply"]))
    if draw(st.booleans()):
        spec["schedulerName"] = "slackwater"
    tier = draw(st.sampled_from([None, "prod", "mid", "batch", "batch", "free"]))
    if tier is not None:
        spec |= {"tier": tier, "resourceDomain": draw(st.sampled_from(["slackwater.io", "kubernetes.io", "none"]))}
        spec["qosClass"] = "LS" if draw(st.booleans()) else {"prod": "LSR"}.get(tier, "BE")
        if draw(st.booleans()):
            name, value = CLASSES[tier]
            spec["priorityClass"] = {"name": name, "value": value, "preemptionPolicy": "Never"}
    return ClusterColocationProfile.parse({"metadata": {"name": f"case-{case:02}"}, "spec": spec})


CRITICAL = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]
AMOUNTS = {
    "cpu": ["0", "1", "1500m", "0.07", "100u", "2k"],
    "memory": ["0", "1Gi", "128974848", "1.5Gi", "0.3Gi", "400m", "1e9", "2.5k"],
}


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    """Requests and limits that the API server accepts: limits are not below requests."""
    made: dict[str, dict[str, str]] = {}
    for name, values in AMOUNTS.items():
        section = draw(st.sampled_from(["requests", "limits", "both", "equal", "none"]))
        low, high = sorted((draw(st.sampled_from(values)), draw(st.sampled_from(values))), key=number)
        if section == "equal":
            section, low = "both", high
        if section in ("requests", "both"):
            made.setdefault("requests", {})[name] = low
        if section in ("limits", "both"):
            made.setdefault("limits", {})[name] = high
    if made and draw(st.integers(0, 5)) == 0:
        for section_name in ("requests", "limits"):
            made.setdefault(section_name, {})["hugepages-2Mi"] = "4Mi"
    if draw(st.integers(0, 5)) == 0:
        for section_name in ("requests", "limits"):
            made.setdefault(section_name, {})["slackwater.io/mid-cpu"] = "700"
    if draw(st.booleans()):
        made.setdefault("limits", {})["example.com/gpu"] = "1"
        made.setdefault("requests", {})["example.com/gpu"] = "1"
    return made


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    cases = draw(st.lists(st.integers(0, CASES - 1), min_size=1, max_size=4, unique=True))
    metadata: dict[str, Any] = {"generateName": draw(st.sampled_from(["p-", "web-7-"]))}
    metadata["labels"] = {**draw(LABELS), **{f"case-{case}": "yes" for case in cases}}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.dictionaries(st.sampled_from(["note", "n/a"]), st.just("kept"), min_size=1))
    if draw(st.booleans()):
        uid = str(uuid.UUID(int=draw(st.integers(0, 2**128 - 1))))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    containers = [
        {"name": f"c{place}", "image": "none", "resources": draw(resources())}
        for place in range(draw(st.integers(1, 2)))
    ]
    spec: dict[str, Any] = {"containers": containers}
    if draw(st.integers(0, 9)) == 0:
        spec["priorityClassName"], spec["priority"] = draw(st.sampled_from(CRITICAL))
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "first", "image": "none", "resources": draw(resources())}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def rest(admin_kubeconfig: Path) -> Iterator[Rest]:
    """The API server with two namespaces and a PriorityClass for each tier."""
    rest = Rest(admin_kubeconfig)
    for name, labels in NAMESPACES.items():
        metadata = {"name": name, "labels": labels}
        rest.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        rest.ensure(f"/api/v1/namespaces/{name}/serviceaccounts", account)
    for name, value in CLASSES.values():
        priority_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        rest.ensure(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {**priority_class, "value": value, "preemptionPolicy": "Never"},
        )
    yield rest
    for name in NAMESPACES:
        rest.delete(f"/api/v1/namespaces/{name}")
    for name, _ in CLASSES.values():
        rest.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    rest.client.close()


@pytest.fixture
def policy(rest: Rest) -> Iterator[Any]:
    """Puts the policy of profiles in force; it is gone after the test."""

    def put(these: list[ClusterColocationProfile], limited: Sequence[str] = ()) -> None:
        beacon = ClusterColocationProfile.parse(
            {
                "metadata": {"name": "beacon"},
                "spec": {
                    "selector": {"matchLabels": {"beacon": (mark := uuid.uuid4().hex)}},
                    "labels": {"seen": "yes"},
                },
            }
        )
        for document in mutation_objects([*these, beacon], limited=[*limited, LIMITED]):
            if "failurePolicy" in document["spec"]:
                document["spec"]["failurePolicy"] = "Fail"  # an expression that fails would pass for one without effect
            rest.ensure(PATHS[document["kind"]], document)
        asked = {
            "metadata": {"generateName": "p-", "labels": {"beacon": mark}},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }
        wait_until(lambda: "seen" in created(rest, PLAIN, asked)["metadata"]["labels"], "in force")

    yield put
    for path in PATHS.values():
        rest.delete(f"{path}/profiles.slackwater.io")


def created(rest: Rest, namespace: str, pod: Mapping[str, Any]) -> Any:
    """What the API server makes of a pod, in a dry run."""
    answer = rest.create(f"/api/v1/namespaces/{namespace}/pods", pod, tried=True)
    assert answer.status_code == 201, f"{answer.text}\n{pod}"
    warning = answer.headers.get("warning", "")
    assert not warning or "fractional byte value" in warning, f"{warning}\n{pod}"
    return answer.json()


def changed_fields(pod: Mapping[str, Any]) -> dict[str, Any]:
    """What profiles may change, as the API server has it: quantities are numbers, cores whole
    milli-cores, and a missing request is the limit."""
    spec, metadata = pod["spec"], pod["metadata"]
    return {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "scheduler": spec.get("schedulerName", "default-scheduler"),
        "priority": (
            spec.get("priorityClassName", ""),
            spec.get("priority", 0),
            spec.get("preemptionPolicy") == "Never",
        ),
        "resources": [
            [_numbers(one.get("resources") or {}) for one in spec.get(field) or ()]
            for field in ("initContainers", "containers")
        ],
    }


def _numbers(resources: Mapping[str, Any]) -> dict[str, dict[str, Decimal]]:
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    return {
        section: {
            name: Decimal(milli(amount)) / 1000 if name == "cpu" else number(amount) for name, amount in amounts.items()
        }
        for section, amounts in (("requests", requests), ("limits", limits))
    }


def drawn_profiles() -> list[list[ClusterColocationProfile]]:
    """Two policies' worth, the same in every run; the first that hypothesis draws is the simplest and left out."""
    drawn: list[list[ClusterColocationProfile]] = []

    @seed(25)
    @settings(max_examples=3, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(profiles())
    def draw(these: list[ClusterColocationProfile]) -> None:
        drawn.append(these)

    draw()
    return drawn[1:]


@pytest.mark.parametrize("these", drawn_profiles(), ids=["one", "two"])
def test_the_api_server_and_the_function_make_the_same_of_pods(
    rest: Rest, policy: Any, these: list[ClusterColocationProfile]
) -> None:
    policy(these)
    changed = rewritten = 0

    @seed(42)
    @settings(max_examples=160, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(NAMESPACES)), pods())
    def agree(namespace: str, pod: dict[str, Any]) -> None:
        nonlocal changed, rewritten
        labels = {**NAMESPACES[namespace], "kubernetes.io/metadata.name": namespace}
        expected = mutate_all(pod, these, namespace, labels, limited=[LIMITED])
        changed += expected != pod
        rewritten += changed_fields(expected)["resources"] != changed_fields(pod)["resources"]
        assert changed_fields(created(rest, namespace, pod)) == changed_fields(expected)

    agree()
    assert (changed > 15, rewritten > 2) == (True, True), f"{changed} pods changed, {rewritten} in their resources"


@pytest.mark.parametrize("domain", ["slackwater.io", "kubernetes.io"])
@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"memory": "0.3Gi"}},
        {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
        {"requests": {"cpu": "0"}, "limits": {"cpu": "2"}},
        {"limits": {"cpu": "2", "memory": "400m"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        {"limits": {"cpu": "1G", "memory": "8Pi"}},
        {"limits": {"cpu": "1e10", "memory": "9Pi"}},
        {"limits": {"cpu": "9223372036854775807", "memory": "9223372036854775807"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "7Ei"}},
        {"requests": {"cpu": "0.9999999", "memory": "1"}, "limits": {"cpu": "1", "memory": "2"}},
        {"limits": {"cpu": ".5", "memory": "12e6"}, "requests": {"cpu": "+500m", "memory": "0012M"}},
        {"limits": {"cpu": "1n", "memory": "1.Gi"}, "claims": [{"name": "gpu"}]},
        {"limits": {"kubernetes.io/batch-cpu": "1500"}, "requests": {"kubernetes.io/batch-cpu": "500"}},
        {"requests": {"cpu": "1", "ephemeral-storage": "0.3Gi"}, "limits": {"ephemeral-storage": "1Gi"}},
    ],
)
def test_no_pod_is_refused_because_of_a_profile(rest: Rest, policy: Any, domain: str, resources: Any) -> None:
    spec = {"selector": {}, "tier": "batch", "qosClass": "BE", "resourceDomain": domain}
    these = [ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": spec})]
    policy(these)
    container = {"name": "c", "image": "none", "resources": resources}
    sidecar = {"name": "s", "image": "none", "restartPolicy": "Always", "resources": resources}
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]} if "claims" in resources else {}
    pod_spec = {"containers": [container], "initContainers": [sidecar], **claims}
    pod = {"metadata": {"generateName": "p-"}, "spec": pod_spec}
    made = created(rest, PLAIN, pod)
    assert made["metadata"]["labels"]["slackwater.io/tier"] == "batch"
    assert changed_fields(made) == changed_fields(mutate_all(pod, these, PLAIN, {}))


@pytest.mark.parametrize("length", [0, 50_000, 131_000, 200_000, 260_000, 262_000])
def test_no_annotation_of_a_profile_refuses_a_pod(rest: Rest, policy: Any, length: int) -> None:
    """Texts of several lines, and more than the API server takes beside those of the pod."""
    texts = {"ad.io/checks": '{\n  "a": ["it\'s"]\n}\n', "odd": "\\\t\r\x01\u2028\U0001f600", "long": "x" * 4096}
    mapping = {"note": "copy", "none": "nothing"}
    these = [
        ClusterColocationProfile.parse({"metadata": {"name": name}, "spec": {"selector": {}, **spec}})
        for name, spec in (
            ("a", {"annotations": texts}),
            ("b", {"annotationKeysMapping": mapping}),
            ("c", {"labels": {"c": "d"}}),
        )
    ]
    policy(these)
    noted = {"annotations": {"note": "\u00e9" * (length // 2)}} if length else {}
    spec = {"containers": [{"name": "c", "image": "none"}]}
    pod = {"metadata": {"generateName": "p-", **noted}, "spec": spec}
    made = created(rest, PLAIN, pod)
    assert made["metadata"]["labels"] == {"c": "d"}
    assert changed_fields(made) == changed_fields(mutate_all(pod, these, PLAIN, {}))


@pytest.mark.parametrize("of_pod", [{}, {"requests": {"cpu": "2"}}])
def test_a_pod_with_resources_of_its_own_keeps_those_of_its_containers(rest: Rest, policy: Any, of_pod: Any) -> None:
    spec = {"selector": {}, "tier": "batch", "qosClass": "BE"}
    these = [ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": spec})]
    policy(these)
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    pod = {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], "resources": of_pod}}
    made = changed_fields(created(rest, PLAIN, pod))
    assert made == changed_fields(mutate_all(pod, these, PLAIN, {}))
    assert made["resources"] == [[], [{"requests": {"cpu": 1}, "limits": {"cpu": 1}}]]


def test_thousands_of_limited_namespaces_are_one_policy(rest: Rest, policy: Any) -> None:
    spec = {"selector": {"matchLabels": {"some": "pod"}}, "tier": "batch", "qosClass": "BE"}
    these = [ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": spec})]
    policy(these, [f"team-{number:05}-{'x' * 52}" for number in range(6000)])
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    pod = {"metadata": {"generateName": "p-", "labels": {"some": "pod"}}, "spec": {"containers": [container]}}
    lent, left = created(rest, PLAIN, pod), created(rest, LIMITED, pod)
    assert "slackwater.io/batch-cpu" in lent["spec"]["containers"][0]["resources"]["limits"]
    assert left["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}


def test_critical_pods_stay(rest: Rest, policy: Any) -> None:
    policy(
        [ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": {"selector": {}, "labels": {"a": "b"}}})]
    )
    for name in ("system-node-critical", "system-cluster-critical"):
        spec = {"containers": [{"name": "c", "image": "none"}], "priorityClassName": name}
        assert "labels" not in created(rest, PLAIN, {"metadata": {"generateName": "p-"}, "spec": spec})["metadata"]


def test_a_policy_is_accepted_without_a_warning(rest: Rest) -> None:
    every = ClusterColocationProfile.parse(
        {
            "metadata": {"name": "all"},
            "spec": {
                "selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
                "namespaceSelector": {},
                "probability": 30,
                "labels": {"a": "b"},
                "labelKeysMapping": {"a": "c"},
                "annotations": {"a": "b"},
                "tier": "batch",
                "qosClass": "BE",
                "priorityClass": {"name": "sw-batch", "value": 5500},
                "schedulerName": "slackwater",
            },
        }
    )
    for document in mutation_objects([every]):
        answer = rest.create(PATHS[document["kind"]], document, tried=True)
        assert answer.status_code == 201, answer.text
        assert "warning" not in answer.headers


def test_pods_of_system_namespaces_stay(rest: Rest, policy: Any) -> None:
    policy(
        [ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": {"selector": {}, "labels": {"a": "b"}}})]
    )
    pod = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    rest.ensure("/api/v1/namespaces/kube-system/serviceaccounts", account)
    assert created(rest, PLAIN, pod)["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in created(rest, "kube-system", pod)["metadata"]
