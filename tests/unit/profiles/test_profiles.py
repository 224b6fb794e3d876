"""What pods become by profiles. tests/kubernetes holds the API server to the same."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import PRIORITY_RANGES, Tier
from slackwater.profiles.mutation import (
    SYSTEM_NAMESPACES,
    kept_because,
    milli,
    mutate,
    mutate_all,
    number,
    rewritten,
    selects,
)
from slackwater.profiles.policy import expressions_of, mutation_cel, mutation_objects
from slackwater.profiles.profile import QOS_OF_TIERS, ClusterColocationProfile
from slackwater.profiles.share import DRAWS, draw, is_drawn, workload_key


def profile(name: str = "batch", **spec: Any) -> ClusterColocationProfile:
    return ClusterColocationProfile.parse({"metadata": {"name": name}, "spec": {"selector": {}, **spec}})


def pod(resources: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "none"}
    if resources is not None:
        container["resources"] = resources
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": [container]}}


def resources_of(changed: Mapping[str, Any]) -> Any:
    return changed["spec"]["containers"][0]["resources"]


def test_a_pod_gets_labels_tier_priority_and_batch_resources() -> None:
    batch = profile(
        labels={"team": "blue"},
        annotations={"why": "cheap"},
        tier="batch",
        qosClass="BE",
        priorityClass={"name": "low", "value": 5500, "preemptionPolicy": "Never"},
        schedulerName="slackwater",
    )
    before = pod({"requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"}}, labels={"team": "red"})
    made = mutate(before, batch)
    assert made["metadata"]["labels"] == {"team": "blue", "slackwater.io/tier": "batch", "slackwater.io/qos": "BE"}
    assert made["metadata"]["annotations"] == {"why": "cheap"}
    spec = made["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("slackwater", "low")
    assert (spec["priority"], spec["preemptionPolicy"]) == (5500, "Never")
    batch_resources = {"slackwater.io/batch-cpu": "1500", "slackwater.io/batch-memory": "1Gi"}
    assert resources_of(made) == {"requests": {"nvidia.com/gpu": "1", **batch_resources}, "limits": batch_resources}
    assert before["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1500m", "the given pod stays"


def test_requests_and_limits_differ_only_where_the_api_server_allows_it() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert rewritten(resources, Tier.BATCH, "slackwater.io") == resources, "no limit falls to its request"
    alias = rewritten(resources, Tier.MID, "kubernetes.io")
    assert alias == {"requests": {"kubernetes.io/mid-cpu": "1000"}, "limits": {"kubernetes.io/mid-cpu": "2000"}}


@pytest.mark.parametrize(
    "kept", [{"tier": "prod"}, {"tier": "free"}, {"labels": {"a": "b"}}, {"tier": "batch", "resourceDomain": "none"}]
)
def test_resources_stay_where_the_tier_has_none_of_its_own(kept: dict[str, Any]) -> None:
    resources = {"requests": {"cpu": "1"}}
    assert resources_of(mutate(pod(resources), profile(**kept))) == resources


@pytest.mark.parametrize("of_pod", [{"requests": {"cpu": "4"}}, {}])
def test_resources_of_the_whole_pod_are_not_rewritten(of_pod: Any) -> None:
    before = pod({"requests": {"cpu": "1"}})
    before["spec"]["resources"] = of_pod
    assert mutate(before, profile(tier="batch"))["spec"] == before["spec"]


def test_the_last_of_several_profiles_counts_and_resources_follow_it() -> None:
    profiles = [profile("b", tier="mid"), profile("a", tier="batch", labels={"x": "1"})]
    made = mutate_all(pod({"requests": {"cpu": "2"}}), profiles, "jobs", {})
    assert made["metadata"]["labels"] == {"x": "1", "slackwater.io/tier": "mid"}
    assert resources_of(made)["requests"] == {"slackwater.io/mid-cpu": "2000"}


@pytest.mark.parametrize("namespace", SYSTEM_NAMESPACES)
def test_pods_of_system_namespaces_and_its_own_stay(namespace: str) -> None:
    before = pod()
    assert mutate_all(before, [profile(labels={"a": "b"})], namespace, {}) is before
    policy = mutation_objects([profile(labels={"a": "b"})])[0]["spec"]
    (excluded,) = policy["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (excluded["operator"], namespace in excluded["values"]) == ("NotIn", True)
    assert policy["failurePolicy"] == "Ignore"


def test_both_selectors_must_hold() -> None:
    both = profile(
        selector={"matchLabels": {"app": "spark"}},
        namespaceSelector={"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
    )
    spark = pod(labels={"app": "spark"})
    assert selects(both, spark, "jobs", {"team": "blue"})
    assert selects(both, spark, "jobs", {}), "NotIn holds where the label is absent"
    assert not selects(both, spark, "jobs", {"team": "red"})
    assert not selects(both, pod(labels={"app": "web"}), "jobs", {"team": "blue"})
    assert not selects(both, pod(), "jobs", {"team": "blue"})


# The peer's three defects (facts/koordinator-quota-scheduling.md, section 7, numbers 13 to 15).


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]},
    ],
)
@pytest.mark.parametrize("field", ["selector", "namespaceSelector"])
def test_a_selector_that_is_wrong_is_refused_and_so_selects_nothing(field: str, selector: dict[str, Any]) -> None:
    """There, a selector in error matches every pod."""
    with pytest.raises(InvalidInput, match=field):
        profile(**{field: selector})


def test_no_selector_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="selector or namespaceSelector is required"):
        ClusterColocationProfile.parse({"metadata": {"name": "a"}, "spec": {"tier": "batch"}})


@given(st.integers(0, 100), st.uuids())
def test_a_share_of_none_and_of_all_is_exact_and_grows_with_the_percentage(percent: int, uid: uuid.UUID) -> None:
    """There, p percent are p + 1."""
    key = str(uid)
    assert not is_drawn(key, 0)
    assert is_drawn(key, 100)
    assert 0 <= draw(key) < DRAWS
    if is_drawn(key, percent):
        assert all(is_drawn(key, more) for more in range(percent, 101)), "a higher share contains a lower one"


@pytest.mark.parametrize("percent", [1, 25, 50, 98, 99])
def test_a_share_is_what_it_says(percent: int) -> None:
    keys = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))) for number in range(20_000)]
    share = sum(is_drawn(key, percent) for key in keys) / len(keys)
    assert share == pytest.approx(percent / 100, abs=0.01)
    exact = sum(number * 100 < percent * DRAWS for number in range(DRAWS))
    assert exact / DRAWS == pytest.approx(percent / 100, abs=1 / DRAWS)


def test_a_mapping_from_a_missing_label_writes_nothing() -> None:
    """There, it writes an empty one."""
    mapped = profile(labelKeysMapping={"team": "owner"}, annotationKeysMapping={"ticket": "case"})
    assert mutate(pod(), mapped)["metadata"] == {"name": "p"}
    made = mutate(pod(labels={"team": "blue"}, annotations={"ticket": "7"}), mapped)
    assert made["metadata"]["labels"] == {"team": "blue", "owner": "blue"}
    assert made["metadata"]["annotations"] == {"ticket": "7", "case": "7"}


def test_a_profile_that_the_share_leaves_out_rewrites_no_resources() -> None:
    """There, resources are rewritten all the same."""
    before = pod({"requests": {"cpu": "1"}})
    assert mutate_all(before, [profile(tier="batch", probability=0)], "jobs", {}) is before


def test_all_pods_of_a_controller_share_a_draw() -> None:
    owners = [{"uid": "other", "controller": False}, {"uid": "set-1", "controller": True}]
    assert workload_key(pod(ownerReferences=owners)) == "set-1"
    assert workload_key(pod()) == "p"
    assert workload_key({"metadata": {"generateName": "p-"}}) == "p-"


@pytest.mark.parametrize("tier", Tier)
def test_qos_class_and_priority_must_be_those_of_the_tier(tier: Tier) -> None:
    for qos in ("LSE", "LSR", "LS", "BE", "SYSTEM"):
        if qos in QOS_OF_TIERS[tier]:
            profile(tier=tier.value, qosClass=qos)
            continue
        with pytest.raises(InvalidInput, match="qosClass"):
            profile(tier=tier.value, qosClass=qos)
    band = PRIORITY_RANGES[tier]
    for value in (band.start, band.stop - 1):
        profile(tier=tier.value, priorityClass={"name": "a", "value": value})
    for value in (band.start - 1, band.stop):
        with pytest.raises(InvalidInput, match=r"priorityClass\.value"):
            profile(tier=tier.value, priorityClass={"name": "a", "value": value})


@given(st.integers(0, 10**12))
def test_cores_are_whole_milli_cores_rounded_up(nano: int) -> None:
    thousandths = milli(f"{nano}n")
    assert thousandths == -(-nano // 10**6)
    assert number(f"{nano}n") == Decimal(nano) / 10**9


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1000), ("1.5", 1500), ("1k", 10**6), ("2e1", 20_000), ("1Ki", 1024_000)]
)
def test_quantities_are_read_as_kubernetes_does(text: str, value: int) -> None:
    assert milli(text) == value


# What the API server accepts of a container, and what must not change of it.

NATIVE = ("cpu", "memory")
QUANTITIES = {
    "cpu": ["0", "1", "1500m", "0.07", "100u", "2k", "1e1"],
    "memory": ["0", "1Gi", "0.3Gi", "1.5Gi", "128974848", "400m", "1e9", "2.5k", "1Ti"],
}


@st.composite
def containers(draw: st.DrawFn) -> dict[str, Any]:
    """Resources of a container that the API server accepts."""
    made: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for name in NATIVE:
        low, high = sorted((draw(st.sampled_from(QUANTITIES[name])) for _ in range(2)), key=number)
        which = draw(st.sampled_from(["none", "requests", "limits", "both", "equal"]))
        if which in ("requests", "both", "equal"):
            made["requests"][name] = high if which == "equal" else low
        if which in ("limits", "both", "equal"):
            made["limits"][name] = high
    huge = ["hugepages-2Mi"] if made["requests"] or made["limits"] else []
    for name in ("nvidia.com/gpu", "slackwater.io/mid-cpu", "slackwater.io/batch-memory", *huge):
        if draw(st.integers(0, 4)) == 0:
            made["requests"][name] = made["limits"][name] = "4Mi" if name in huge else "7"
    return {section: amounts for section, amounts in made.items() if amounts or draw(st.booleans())}


def refusals(resources: Mapping[str, Any]) -> list[str]:
    """Why the API server refuses the resources of a container (its validateResourceRequirements)."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    problems = []
    for name in {*limits, *requests}:
        is_native = "/" not in name or "kubernetes.io/" in name
        may_differ = is_native and not name.startswith("hugepages-")
        values = [number(amounts[name]) for amounts in (requests, limits) if name in amounts]
        if not is_native and any(value != int(value) for value in values):
            problems.append(f"{name} must be an integer")
        if not may_differ and (name not in limits or len(set(values)) > 1):
            problems.append(f"{name} must be equal to its limit")
        if name in limits and values[0] > values[-1]:
            problems.append(f"{name} is above its limit")
    if any(name.startswith("hugepages-") for name in {*limits, *requests}) and not {*limits, *requests} & {*NATIVE}:
        problems.append("hugepages require cpu or memory")
    return problems


def effective(resources: Mapping[str, Any], tier: str, domain: str) -> dict[tuple[str, str], Decimal]:
    """Requests and limits of CPU (in milli-cores) and memory, whatever they are asked for as."""
    found: dict[tuple[str, str], Decimal] = {}
    for section in ("requests", "limits"):
        for name, quantity in (resources.get(section) or {}).items():
            if name in NATIVE:
                found[section, name] = Decimal(milli(quantity)) if name == "cpu" else number(quantity)
            for amount in NATIVE:
                if name == f"{domain}/{tier}-{amount}":
                    found[section, amount] = number(quantity)
    return found


@seed(42)
@settings(max_examples=600, database=None)
@given(containers(), st.sampled_from([Tier.MID, Tier.BATCH]), st.sampled_from(["slackwater.io", "kubernetes.io"]))
def test_no_container_is_refused_and_no_limit_vanishes_or_falls(resources: Any, tier: Tier, domain: str) -> None:
    assert refusals(resources) == [], "the drawn container itself is accepted"
    made = rewritten(resources, tier, domain)
    assert refusals(made) == []
    assert rewritten(made, tier, domain) == made
    before, after = effective(resources, tier, domain), effective(made, tier, domain)
    for (section, amount), value in before.items():
        assert value <= after[section, amount] < value + 1, "memory is rounded up to whole bytes"
    for name in ("nvidia.com/gpu", "hugepages-2Mi"):
        for section in ("requests", "limits"):
            assert made.get(section, {}).get(name) == resources.get(section, {}).get(name)
    stays = kept_because(resources, tier, domain)
    for amount in NATIVE:
        is_native = amount in made.get("requests", {}) or amount in made.get("limits", {})
        assert is_native <= (amount in stays)


@pytest.mark.parametrize(
    ("resources", "domain", "kept"),
    [
        ({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}, "slackwater.io", {"memory": "has no limit"}),
        ({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}, "kubernetes.io", {}),
        ({"requests": {"cpu": "0"}, "limits": {"cpu": "2"}}, "slackwater.io", {"cpu": "has no limit"}),
        ({"requests": {"cpu": "0"}}, "slackwater.io", {"cpu": "it is 0"}),
        ({"limits": {"cpu": "2"}}, "slackwater.io", {}),
        ({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}, "kubernetes.io", {"cpu": "huge", "memory": "huge"}),
        ({"requests": {"cpu": "1", "slackwater.io/mid-cpu": "7"}}, "slackwater.io", {"cpu": "cpu and slackwater"}),
        ({"limits": {"cpu": "1G", "memory": "8Pi"}}, "slackwater.io", {}),
        ({"limits": {"cpu": "1001M", "memory": "9Pi"}}, "slackwater.io", {"cpu": "than 1G", "memory": "than 8Pi"}),
        ({"requests": {"memory": "1"}, "limits": {"memory": "7E"}}, "kubernetes.io", {"memory": "more than 8Pi"}),
        ({"requests": {"cpu": "0.9999999"}, "limits": {"cpu": "1"}}, "slackwater.io", {}),
    ],
)
def test_what_cannot_be_lent_stays_with_its_reason(resources: Any, domain: str, kept: Mapping[str, str]) -> None:
    reasons = kept_because(resources, Tier.BATCH, domain)
    assert reasons.keys() == kept.keys()
    assert all(kept[amount] in reasons[amount] for amount in kept)
    made = rewritten(resources, Tier.BATCH, domain)
    for amount in kept:
        for section in ("requests", "limits"):
            assert made.get(section, {}).get(amount) == resources.get(section, {}).get(amount)


@pytest.mark.parametrize(("text", "whole"), [("0.3Gi", "322122548"), ("400m", "1"), ("1.5Gi", "1.5Gi")])
def test_fractions_of_a_byte_are_rounded_up(text: str, whole: str) -> None:
    made = rewritten({"requests": {"memory": text}}, Tier.BATCH, "slackwater.io")
    assert made["requests"] == made["limits"] == {"slackwater.io/batch-memory": whole}


CRITICAL: list[dict[str, Any]] = [
    {"spec": {"priorityClassName": "system-node-critical"}},
    {"spec": {"priorityClassName": "system-cluster-critical"}},
    {"spec": {"priority": 2 * 10**9}},
    {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
    {"metadata": {"ownerReferences": [{"kind": "Node", "uid": "n", "controller": True}]}},
]


@pytest.mark.parametrize("critical", CRITICAL)
def test_pods_without_which_the_system_does_not_work_stay(critical: dict[str, Any]) -> None:
    before = pod({"requests": {"cpu": "1"}})
    before = {part: {**before[part], **critical.get(part, {})} for part in before}
    assert mutate_all(before, [profile(tier="batch")], "jobs", {}) is before


@pytest.mark.parametrize("other", [{"priorityClassName": "system-of-mine"}, {"priority": 10**9}])
def test_other_pods_with_a_priority_are_changed(other: dict[str, Any]) -> None:
    before = pod({"requests": {"cpu": "1"}})
    before["spec"] |= other
    assert mutate_all(before, [profile(tier="batch")], "jobs", {}) is not before


def test_texts_in_cel_are_quoted() -> None:
    made = mutation_cel(profile(annotations={"a/b": "it's \\ so"}))
    assert r"'it\'s \\ so'" in made
    assert "'/metadata/annotations/a~1b'" in made


def test_texts_of_several_lines_are_one_line_of_cel() -> None:
    made = mutation_cel(profile(annotations={"ad.io/checks": '{\r\n\t"a": 1\n}\x01'}))
    assert r"""'{\u000d\u000a\u0009"a": 1\u000a}\u0001'""" in made
    assert made.isprintable()


@pytest.mark.parametrize(
    ("field", "key", "value"),
    [
        ("labels", "a..b/x", "y"),
        ("labels", "a-.b/x", "y"),
        ("labelKeysMapping", "app", "-a.b/x"),
        ("annotations", f"{'a' * 252}/x", "y"),
        ("annotations", "kubernetes.io/config.mirror", "y"),
        ("annotations", "scheduler.alpha.kubernetes.io/tolerations", "{"),
        ("annotations", "container.apparmor.security.beta.kubernetes.io/main", "none"),
        ("annotations", "seccomp.security.alpha.kubernetes.io/pod", "none"),
        ("annotations", "controller.kubernetes.io/pod-deletion-cost", "+1"),
        ("annotations", "controller.kubernetes.io/pod-deletion-cost", "9999999999"),
        ("annotationKeysMapping", "cost", "controller.kubernetes.io/pod-deletion-cost"),
        ("annotationKeysMapping", "seccomp", "seccomp.security.alpha.kubernetes.io/pod"),
    ],
)
def test_what_the_api_server_would_refuse_of_every_pod_is_refused_of_the_profile(
    field: str, key: str, value: str
) -> None:
    with pytest.raises(InvalidInput, match=field):
        profile(**{field: {key: value}})


def test_what_pods_may_have_is_a_profiles_too() -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "-100", "cluster-autoscaler.kubernetes.io/safe": "no"}
    assert mutate(pod(), profile(annotations=annotations))["metadata"]["annotations"] == annotations


@pytest.mark.parametrize(
    ("size", "spec", "has_room"),
    [
        (256 * 1024 - 5 - 4, {"annotations": {"b": "123"}}, True),
        (256 * 1024 - 5 - 3, {"annotations": {"b": "123"}}, False),
        (128 * 1024 - 5 - 4, {"annotationKeysMapping": {"large": "other"}}, True),
        (128 * 1024 - 5, {"annotationKeysMapping": {"large": "other"}}, False),
    ],
)
def test_annotations_are_added_while_the_api_server_takes_so_many(size: int, spec: Any, has_room: bool) -> None:
    before = pod(annotations={"large": "x" * size})
    made = mutate(before, profile(labels={"a": "b"}, **spec))
    assert made["metadata"]["labels"] == {"a": "b"}
    assert (made["metadata"]["annotations"] != before["metadata"]["annotations"]) is has_room


def test_a_profile_that_is_too_long_for_the_policy_is_left_out_and_the_others_are_not() -> None:
    values = [f"{number:060}" for number in range(100)]
    expressions = [{"key": f"k{number}", "operator": "NotIn", "values": values} for number in range(20)]
    long = profile("long", selector={"matchExpressions": expressions}, labels={"a": "b"})
    some = [profile(f"wide-{number}", annotations={f"a{n}": "x" * 4000 for n in range(20)}) for number in range(20)]
    made, left_out = expressions_of([long, *some, profile("short", labels={"a": "b"})])
    assert ("short" in made, "100,000 characters" in left_out["long"]) == (True, True)
    assert sum(map(len, made.values())) <= 1_000_000
    assert {*made, *left_out} == {"long", "short", *(one.name for one in some)}
    assert "bytes of all profiles" in left_out["wide-9"]


def test_without_profiles_there_is_no_policy() -> None:
    assert mutation_objects([]) == []
    assert mutation_objects([profile()]) == [], "it changes nothing"
