"""What pods become by profiles. tests/kubernetes holds the API server to the same."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import PRIORITY_RANGES, Tier
from slackwater.profiles.mutation import SYSTEM_NAMESPACES, milli_cores, mutate, mutate_all, number, rewritten, selects
from slackwater.profiles.policy import mutation_cel, mutation_objects
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
    own = rewritten(resources, Tier.BATCH, "slackwater.io")
    assert own == {"requests": {"slackwater.io/batch-cpu": "1000"}, "limits": {"slackwater.io/batch-cpu": "1000"}}
    alias = rewritten(resources, Tier.MID, "kubernetes.io")
    assert alias == {"requests": {"kubernetes.io/mid-cpu": "1000"}, "limits": {"kubernetes.io/mid-cpu": "2000"}}


@pytest.mark.parametrize(
    "kept", [{"tier": "prod"}, {"tier": "free"}, {"labels": {"a": "b"}}, {"tier": "batch", "resourceDomain": "none"}]
)
def test_resources_stay_where_the_tier_has_none_of_its_own(kept: dict[str, Any]) -> None:
    resources = {"requests": {"cpu": "1"}}
    assert resources_of(mutate(pod(resources), profile(**kept))) == resources


def test_resources_of_the_whole_pod_are_not_rewritten() -> None:
    before = pod({"requests": {"cpu": "1"}})
    before["spec"]["resources"] = {"requests": {"cpu": "2"}}
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
    milli = milli_cores(f"{nano}n")
    assert milli == -(-nano // 10**6)
    assert number(f"{nano}n") == Decimal(nano) / 10**9


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1000), ("1.5", 1500), ("1k", 10**6), ("2e1", 20_000), ("1Ki", 1024_000)]
)
def test_quantities_are_read_as_kubernetes_does(text: str, value: int) -> None:
    assert milli_cores(text) == value


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "slackwater.io/mid-cpu", "slackwater.io/batch-memory"]),
    st.sampled_from(["1", "500m", "2Gi"]),
)


@given(
    st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts}),
    st.sampled_from([Tier.MID, Tier.BATCH]),
)
def test_rewriting_leaves_no_native_amount_loses_no_other_and_is_idempotent(resources: Any, tier: Tier) -> None:
    made = rewritten(resources, tier, "slackwater.io")
    for section in ("requests", "limits"):
        assert not {"cpu", "memory"} & made.get(section, {}).keys()
        gpu = "nvidia.com/gpu"
        assert made.get(section, {}).get(gpu) == resources.get(section, {}).get(gpu)
    assert rewritten(made, tier, "slackwater.io") == made
    asked = {**resources.get("limits", {}), **resources.get("requests", {})}
    if "cpu" in asked:
        name = f"slackwater.io/{tier}-cpu"
        assert made["requests"][name] == made["limits"][name] == str(milli_cores(asked["cpu"]))


def test_texts_in_cel_are_quoted() -> None:
    made = mutation_cel(profile(annotations={"a/b": "it's \\ so"}))
    assert r"'it\'s \\ so'" in made
    assert "'/metadata/annotations/a~1b'" in made


def test_without_profiles_there_is_no_policy() -> None:
    assert mutation_objects([]) == []
    assert mutation_objects([profile()]) == [], "it changes nothing"
