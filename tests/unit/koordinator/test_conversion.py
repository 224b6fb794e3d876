"""Koordinator's published forms as documents, and what the report says of the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.fairshare.documents import ElasticQuota, quota_of
from slackwater.fairshare.tree import ledger
from slackwater.koordinator.conversion import convert
from slackwater.koordinator.conversion_report import Conversion, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import document_name, inverted
from slackwater.resources.selectors import LabelSelector

PUBLISHED = list(yaml.safe_load_all((Path(__file__).parent / "koordinator.yaml").read_text()))


def config(**sections: Any) -> dict[str, Any]:
    texts = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value) for key, value in sections.items()
    }
    metadata = {"name": "slo-controller-config", "namespace": "koordinator-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts}


def quota(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    own = {f"quota.scheduling.koordinator.sh/{key}": value for key, value in (labels or {}).items()}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "labels": own},
        "spec": spec,
    }


def profile(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", **spec.pop("metadata", {})}
    version = "config.koordinator.sh/v1alpha1"
    return {"apiVersion": version, "kind": "ClusterColocationProfile", "metadata": metadata, "spec": spec}


def spec_of(conversion: Conversion, title: str) -> Any:
    return {document.title: document.spec for document in conversion.documents}[title]


def lines(conversion: Conversion, outcome: str) -> list[ReportLine]:
    return [line for line in conversion.report if line.outcome == outcome]


def test_strategies_say_what_the_peer_does() -> None:
    made = convert(PUBLISHED)
    default = spec_of(made, "ColocationStrategy/default")
    assert default["midReclaimMode"] == "dynamic", "the peer offers mid without being told"
    assert default["cpuCalculatePolicy"] == "usage", "the peer ignores request for CPU"
    assert default["memoryCalculatePolicy"] == "request"
    assert default["metricAggregatePolicy"] == ["5m", "10m", "90m"]
    numa, gpu = (spec_of(made, f"ColocationStrategy/{name}") for name in ("anolis-numa", "gpu"))
    assert numa["precedence"] > gpu["precedence"], "the first entry that matches counts"
    assert numa["nodeSelector"] == {"matchLabels": {"kubernetes.io/kernel": "anolis"}}
    assert (numa["midReclaimMode"], gpu["enable"]) == ("static", False)


def test_thresholds_become_rules_and_the_clusters_leave_out_nodes_with_their_own() -> None:
    made = convert(PUBLISHED)
    cluster, of_db = (spec_of(made, f"NodeQOS/{name}") for name in ("koordinator", "koordinator-db"))
    assert cluster["selector"] == {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["db"]}]}
    assert of_db["selector"] == {"matchLabels": {"role": "db"}}
    waterlines = [
        [(rule["name"], rule["metricRule"].get("value"), rule["metricRule"].get("target")) for rule in spec["rules"]]
        for spec in (cluster, of_db)
    ]
    assert waterlines[0] == [
        ("cpu-suppress", "65%", None),
        ("memory-evict", "70%", "65%"),
        ("cpu-satisfaction", "40%", "20%"),
    ]
    assert waterlines[1] == [("cpu-suppress", "50%", None), *waterlines[0][1:]], "the cluster's below its own"
    assert spec_of(made, "PodQOS/koordinator-batch")["allowedActions"] == ["throttle", "koordinator-evict"]
    assert any("mode evict" in line.note for line in lines(made, "changed"))


def test_a_disabled_threshold_strategy_makes_no_rule() -> None:
    made = convert([config(resource_threshold_config={"clusterStrategy": {"cpuSuppressThresholdPercent": 10}})])
    assert made.documents == ()


def test_quotas_keep_tree_amounts_and_order() -> None:
    made = convert(PUBLISHED)
    names = [document.name for document in made.documents if document.kind == "ElasticQuota"]
    assert names == ["company", "team-b", "team-a-train"], "parents first; the root of a tree is generated"
    company, train, team_b = (spec_of(made, f"ElasticQuota/{name}") for name in ("company", "team-a-train", "team-b"))
    assert company["isParent"] is True
    assert company["max"]["memory"] == 2**53, "MaxInt64 means without limit"
    assert train["parent"] == "company"
    assert train["allowLentResource"] is False
    assert train["min"] == {"cpu": "4", "memory": "8Gi", "batch-cpu": "4000m"}, "the peer counts batch-cpu in milli"
    assert train["sharedWeight"] == {"cpu": "10", "memory": "20Gi"}
    assert "parent" not in team_b, "its parent is the root of its tree"
    assert team_b["tree"] == "5412365875"
    assert spec_of(made, "QuotaProfile/gpu-pool") == {"nodePool": "gpu", "tree": "5412365875", "resourcePercent": 90}
    dropped = {line.field for line in lines(made, "dropped")}
    assert "quota.scheduling.koordinator.sh/namespaces" in dropped
    assert "quota.scheduling.koordinator.sh/runtime" not in dropped, "the peer writes it itself"


def test_a_quota_without_a_tree_is_in_that_of_the_quotas_above_it() -> None:
    above = {"tree-id": "gpu", "is-parent": "true"}
    levels = [quota("a", above), quota("b", {"parent": "a", "is-parent": "true"}), quota("c", {"parent": "b"})]
    made = convert([*levels, quota("d")])
    trees = {document.name: document.spec.get("tree", "") for document in made.documents}
    assert trees == {"a": "gpu", "b": "gpu", "c": "gpu", "d": ""}
    convert([quota("a", {"parent": "b"}), quota("b", {"parent": "a"})])  # a circle ends, and the server refuses it


def test_the_default_quota_of_a_peer_takes_nothing_from_teams() -> None:
    beyond_all = {"cpu": "1844674407370955161", "memory": "1844674407370955161"}
    made = convert([quota("koordinator-default-quota", max=beyond_all), quota("team", max={"cpu": 8, "memory": 8})])
    declared = [
        quota_of(ElasticQuota.parse({"metadata": {"name": one.name}, "spec": dict(one.spec)})).quota
        for one in made.documents
    ]
    both = [replace(one, own_request={"cpu": 8000, "memory": 8}) for one in declared]
    runtime = ledger(both, {"cpu": 8000, "memory": 8}).runtime
    assert runtime["team"] == {"cpu": 7999, "memory": 7}, "the least weight is 1 of 8,001 in CPU, and of 9 in memory"
    (told,) = (line for line in made.report if line.field.endswith("shared-weight"))
    assert (told.outcome, told.target) == (ImportOutcome.CHANGED, "ElasticQuota/default")


def test_a_profile_states_tier_and_value_of_its_priority_class() -> None:
    made = convert(PUBLISHED)
    spec = spec_of(made, "ClusterColocationProfile/colocation-profile-example")
    assert (spec["tier"], spec["qosClass"], spec["probability"]) == ("batch", "BE", 40)
    assert spec["priorityClass"] == {"name": "koord-batch", "value": 5000}
    assert spec["labels"] == {"koordinator.sh/mutated": "true", "slackwater.io/priority": "1000"}
    assert "schedulerName" not in spec
    fields = {line.field: line.outcome for line in made.report if line.source.endswith("colocation-profile-example")}
    assert fields["spec.patch"] == fields["spec.labelSuffixes"] == ImportOutcome.DROPPED
    assert fields["spec.schedulerName"] == ImportOutcome.CHANGED


def test_the_value_of_a_priority_class_is_its_own_where_it_is_given() -> None:
    klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 7100}
    given_profile = profile(priorityClassName="low")
    made = spec_of(convert([given_profile, {**klass, "preemptionPolicy": "Never"}]), "ClusterColocationProfile/p")
    assert made["priorityClass"] == {"name": "low", "value": 7100, "preemptionPolicy": "Never"}
    assert made["tier"] == "mid"
    assert made["selector"] == {}, "the peer's empty selectors match every pod"
    (line,) = lines(convert([given_profile]), "refused")
    assert "PriorityClass" in line.note


def test_a_profile_that_leaves_resources_alone_keeps_doing_so() -> None:
    annotations = {"config.koordinator.sh/skip-update-resources": ""}
    made = convert([profile(priorityClassName="koord-mid", metadata={"annotations": annotations})])
    assert spec_of(made, "ClusterColocationProfile/p")["resourceDomain"] == "none"


def test_marks_of_nodes_and_pods_are_read_as_aliases_or_named() -> None:
    report = {(line.source, line.field): line for line in convert([*PUBLISHED, *PUBLISHED]).report}
    assert report["Nodes", "label node.koordinator.sh/cpu-reclaim-ratio"].outcome == ImportOutcome.ALIAS
    assert report["Nodes", "label node.koordinator.sh/cpu-reclaim-ratio"].count == 2
    assert report["Nodes", "label node.koordinator.sh/numa-topology-policy"].outcome == ImportOutcome.DROPPED
    assert report["Pods", "label koordinator.sh/qosClass"].outcome == ImportOutcome.ALIAS
    assert "slackwater claim" in report["Pods", "label quota.scheduling.koordinator.sh/name"].note
    assert "ALIASES" in report["Pods", "resource kubernetes.io/batch-cpu"].note
    assert report["Reservations", ""].outcome == ImportOutcome.DROPPED
    assert not any("Secret" in source for source, _ in report)


def marked(kind: str, form: str, key: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", form: {key: value}}}


@pytest.mark.parametrize(
    ("kind", "form", "key", "good", "bad"),
    [
        ("Node", "labels", "node.koordinator.sh/cpu-reclaim-ratio", "0.7", "seventy"),
        ("Node", "annotations", "node.koordinator.sh/colocation-strategy", '{"enable": true}', '{"enable": 3}'),
        ("Node", "annotations", "node.koordinator.sh/colocation-strategy", "{}", "[]"),
        ("Node", "annotations", "node.koordinator.sh/reservation", '{"resources": {"cpu": "2"}}', "2 cores"),
        ("Node", "annotations", "node.koordinator.sh/raw-allocatable", '{"cpu": 8, "memory": "1Gi"}', '{"cpu": 8}'),
        ("Node", "annotations", "node.koordinator.sh/cpu-normalization-ratio", "1.2", "fast"),
        ("Node", "annotations", "node.koordinator.sh/third-party-allocations", '{"allocations": []}', "{"),
        ("Pod", "labels", "koordinator.sh/qosClass", "LS", "LSX"),
        ("Pod", "labels", "koordinator.sh/priority-class", "koord-batch", "golden"),
        ("Pod", "labels", "koordinator.sh/priority", "-3", "high"),
        ("Pod", "annotations", "koordinator.sh/eviction-enabled", "false", "no"),
        ("Pod", "annotations", "koordinator.sh/eviction-policy", '["evictByNodeMemoryUsage"]', "{"),
        ("Pod", "annotations", "koordinator.sh/eviction-priority", "7", "last"),
        ("Pod", "annotations", "scheduling.koordinator.sh/eviction-cost", "-100", "+1"),
    ],
)
def test_a_mark_is_read_with_its_value_and_in_its_place(kind: str, form: str, key: str, good: str, bad: str) -> None:
    other = "annotations" if form == "labels" else "labels"
    (read,) = convert([marked(kind, form, key, good)]).report
    assert (read.outcome, read.field) == (ImportOutcome.ALIAS, f"{form[:-1]} {key}")
    (refused,) = convert([marked(kind, form, key, bad)]).report
    assert refused.outcome is ImportOutcome.REFUSED
    assert refused.note
    if kind == "Node" or key in ("koordinator.sh/qosClass", "koordinator.sh/priority-class"):
        (dropped,) = convert([marked(kind, other, key, good)]).report
        assert (dropped.outcome, dropped.note) == (ImportOutcome.DROPPED, "nothing reads it")


def test_a_label_that_a_converted_profile_reads_is_read() -> None:
    selecting = profile(
        selector={"matchLabels": {"koordinator.sh/enable-colocation": "true"}},
        labelKeysMapping={"app.koordinator.sh/team": "team"},
        qosClass="BE",
    )
    pods = [
        marked("Pod", "labels", "koordinator.sh/enable-colocation", "true"),
        marked("Pod", "labels", "app.koordinator.sh/team", "a"),
        marked("Pod", "labels", "koordinator.sh/other", "true"),
    ]
    made = convert([*pods, selecting])
    said = {line.field: (str(line.outcome), line.target) for line in made.report if line.source == "Pods"}
    assert said == {
        "label koordinator.sh/enable-colocation": ("alias", "ClusterColocationProfile/p"),
        "label app.koordinator.sh/team": ("alias", "ClusterColocationProfile/p"),
        "label koordinator.sh/other": ("dropped", ""),
    }
    without = made.without({"ClusterColocationProfile/p": "no"})
    assert {str(line.outcome) for line in without.report if line.source == "Pods"} == {"dropped"}


@pytest.mark.parametrize(
    ("kind", "form", "key"),
    [
        ("Pod", "labels", "x.koordinator.sh/selects"),
        ("Pod", "labels", "x.koordinator.sh/expressed"),
        ("Pod", "labels", "x.koordinator.sh/copied"),
        ("Pod", "annotations", "x.koordinator.sh/noted"),
        ("Namespace", "labels", "x.koordinator.sh/team"),
        ("Node", "labels", "x.koordinator.sh/pool"),
        ("Node", "labels", "x.koordinator.sh/role"),
    ],
)
def test_a_mark_is_read_where_a_document_reads_it_and_nowhere_else(kind: str, form: str, key: str) -> None:
    """A label of pods that a profile selects by is no annotation, and no label of nodes or namespaces."""
    of_pods = {
        "matchLabels": {"x.koordinator.sh/selects": "a"},
        "matchExpressions": [{"key": "x.koordinator.sh/expressed", "operator": "Exists"}],
    }
    reading = [
        profile(
            selector=of_pods,
            namespaceSelector={"matchLabels": {"x.koordinator.sh/team": "a"}},
            labelKeysMapping={"x.koordinator.sh/copied": "a"},
            annotationKeysMapping={"x.koordinator.sh/noted": "a"},
        ),
        config(
            colocation_config={
                "nodeConfigs": [{"name": "x", "nodeSelector": {"matchLabels": {"x.koordinator.sh/pool": "a"}}}]
            },
            resource_threshold_config={
                "clusterStrategy": {"enable": True},
                "nodeStrategies": [{"name": "y", "nodeSelector": {"matchLabels": {"x.koordinator.sh/role": "a"}}}],
            },
        ),
    ]
    for other_kind in ("Pod", "Namespace", "Node"):
        for other_form in ("labels", "annotations"):
            report = convert([*reading, marked(other_kind, other_form, key, "a")]).report
            (line,) = (line for line in report if line.field == f"{other_form[:-1]} {key}")
            here = (other_kind, other_form) == (kind, form)
            assert line.outcome is (ImportOutcome.ALIAS if here else ImportOutcome.DROPPED)


def test_two_objects_of_one_name_are_not_one_document() -> None:
    in_a, in_b = (quota("team", max={"cpu": 4}) for _ in range(2))
    for one, namespace in ((in_a, "a"), (in_b, "b")):
        one["metadata"]["namespace"] = namespace
    made = convert([in_a, in_b])
    assert [document.source for document in made.documents] == ["ElasticQuota a/team"]
    said = [(str(line.outcome), line.source, line.note) for line in made.report]
    assert said == [
        ("converted", "ElasticQuota a/team", ""),
        ("refused", "ElasticQuota b/team", "ElasticQuota a/team has the same name"),
    ]


def test_an_object_that_is_given_twice_is_one() -> None:
    earlier, later = profile(selector={}, qosClass="BE"), profile(selector={}, qosClass="LS")
    made = convert([earlier, config(colocation_config={"enable": True}), later, config(colocation_config={})])
    assert [document.title for document in made.documents] == [
        "ColocationStrategy/default",
        "ClusterColocationProfile/p",
    ]
    assert spec_of(made, "ClusterColocationProfile/p")["qosClass"] == "LS"


def test_parents_in_a_circle_are_refused_by_name_with_all_below_them() -> None:
    quotas = [quota(name, {"parent": parent}) for name, parent in (("b", "c"), ("c", "a"), ("a", "b"), ("x", "a"))]
    made = convert([*quotas, quota("own", {"parent": "own"}), quota("fine"), quota("lost", {"parent": "y"})])
    assert {document.name for document in made.documents} == {"fine"}
    assert {line.source.removeprefix("ElasticQuota "): line.note for line in lines(made, "refused")} == {
        **dict.fromkeys("abc", "its parents are a cycle: a -> b -> c -> a"),
        "x": "a is in a cycle: a -> b -> c -> a",
        "own": "its parents are a cycle: own -> own",
        "lost": "there is no quota y in what was read",
    }


@pytest.mark.parametrize(
    ("document", "field", "note"),
    [
        (config(colocation_config="{"), "", "is not JSON"),
        (config(colocation_config="[]"), "", "is not a JSON object"),
        (config(colocation_config={"cpuReclaimThresholdPercent": -1}), "cpuReclaimThresholdPercent", "-1"),
        (config(colocation_config={"nodeConfigs": 1}), "nodeConfigs", "is no list"),
        (
            config(colocation_config={"nodeConfigs": [{"name": "x", "nodeSelector": {"matchLabels": 3}}]}),
            "nodeConfigs[x].nodeSelector",
            "is no label selector",
        ),
        (config(resource_threshold_config={"clusterStrategy": [1]}), "clusterStrategy", "is no JSON object"),
        (config(resource_threshold_config={"nodeStrategies": {"a": 1}}), "nodeStrategies", "is no list"),
        (config(colocation_config={"metricAggregatePolicy": {"durations": ["5 m"]}}), "metricAggregatePolicy", "list"),
        (
            config(resource_threshold_config={"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": "x"}}),
            "clusterStrategy.memoryEvictThresholdPercent",
            "no percentage",
        ),
        (quota("a", {"parent": "nowhere"}), "quota.scheduling.koordinator.sh/parent", "no quota nowhere"),
        (quota("a", min={"cpu": "many"}), "min.cpu", "many"),
        (profile(probability="half"), "spec.probability", "percentage"),
        (profile(selector=[1]), "spec.selector", "is no label selector"),
    ],
)
def test_what_cannot_be_read_is_reported_with_field_and_reason(document: Any, field: str, note: str) -> None:
    (line,) = lines(convert([document]), "refused")
    assert line.field == field
    assert note in line.note


def test_everything_is_complete_only_if_all_acts_the_same() -> None:
    assert convert([quota("a", min={"cpu": 1}, max={"cpu": 2})]).is_complete
    assert not convert(PUBLISHED).is_complete


@pytest.mark.parametrize(
    ("own", "note"),
    [
        ({"cpuEvictBESatisfactionLowerPercent": 60}, "UpperPercent is needed"),
        ({"cpuEvictBESatisfactionLowerPercent": 70, "cpuEvictBESatisfactionUpperPercent": 80}, "above 60"),
        ({"memoryEvictThresholdPercent": 60, "memoryEvictLowerPercent": 80}, "nothing between"),
    ],
)
def test_a_wrong_threshold_is_refused_and_the_other_rules_stay(own: dict[str, int], note: str) -> None:
    made = convert([config(resource_threshold_config={"clusterStrategy": {"enable": True, **own}})])
    (line,) = lines(made, "refused")
    assert note in line.note
    assert "cpu-suppress" in {rule["name"] for rule in spec_of(made, "NodeQOS/koordinator")["rules"]}


def test_overlapping_node_strategies_are_reported() -> None:
    entry = {"name": "x", "nodeSelector": {"matchLabels": {"a": "1", "b": "2"}}}
    made = convert([config(resource_threshold_config={"clusterStrategy": {"enable": True}, "nodeStrategies": [entry]})])
    assert "selector" not in spec_of(made, "NodeQOS/koordinator")
    assert any(line.field == "nodeStrategies" for line in lines(made, "changed"))


VALUES = st.sampled_from(["x", "y", "z"])
CONDITIONS = st.one_of(
    st.builds(lambda key, value: {"matchLabels": {key: value}}, st.sampled_from("ab"), VALUES),
    st.builds(
        lambda key, operator, values: {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
        st.sampled_from("ab"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"matchExpressions": [{"key": key, "operator": operator}]},
        st.sampled_from("ab"),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)


@given(st.lists(CONDITIONS, max_size=3), st.dictionaries(st.sampled_from("ab"), VALUES))
@settings(max_examples=50)
def test_an_inverted_selector_selects_what_none_of_them_does(selectors: Any, labels: dict[str, str]) -> None:
    opposite = inverted(selectors)
    assert opposite is not None
    matched = any(LabelSelector.parse(selector).matches(labels) for selector in selectors)
    assert LabelSelector.parse(opposite).matches(labels) is not matched


@given(st.text(max_size=70), st.sets(st.sampled_from(["a", "b", "instead", "a-2"])))
@settings(max_examples=50)
def test_names_are_labels_and_free(text: str, taken: set[str]) -> None:
    name = document_name(text, taken, "instead")
    assert name not in taken
    assert len(name) <= 63
    assert name.strip("-") == name
    assert name


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 200), st.text(max_size=4), st.floats(allow_nan=False))
BODIES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["clusterStrategy", "nodeStrategies", "nodeConfigs", "nodeSelector", "matchLabels", "enable", "name"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["clusterStrategy", "nodeStrategies", "nodeConfigs", "enable"]), BODIES))
@settings(max_examples=50)
def test_no_configuration_ends_the_conversion(body: dict[str, Any]) -> None:
    made = convert([config(colocation_config=body, resource_threshold_config=body)])
    assert made.report, "every text is reported"
