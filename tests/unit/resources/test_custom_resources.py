"""Every kind is a CustomResourceDefinition with a structural schema that says what its model says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Literal

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kind_scenes import EXAMPLE
from structural_rules import violations
from tests.kubernetes.drawn_documents import documents

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.resources import catalog
from slackwater.resources.cel import CelRule
from slackwater.resources.crd.admission import admission_objects
from slackwater.resources.crd.definition import BUILT_IN_SHORT, definition, document_schema
from slackwater.resources.crd.merged import merged_schema
from slackwater.resources.crd.paths import ITEMS, at_path
from slackwater.resources.crd.structural import structural_schema
from slackwater.resources.kind import Kind
from slackwater.resources.metadata import Part
from slackwater.resources.names import API_VERSION

KINDS = (*catalog.KINDS, EXAMPLE)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@cache
def schema_of(kind: Kind) -> dict[str, Any]:
    (version,) = definition(kind)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


@cache
def validator_of(kind: Kind) -> jsonschema.Draft4Validator:
    """OpenAPI v3 has the bounds of draft 4."""
    return jsonschema.Draft4Validator(schema_of(kind))


def accepts(kind: Kind, document: dict[str, Any]) -> bool:
    """What the schema alone says, without CEL."""
    return validator_of(kind).is_valid(document)


@every_kind
def test_its_schema_is_structural(kind: Kind) -> None:
    schema = schema_of(kind)
    assert list(violations(schema)) == []
    assert schema["properties"].keys() == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert schema["properties"]["metadata"]["properties"].keys() == {"name"}, "Kubernetes allows no other"


def test_the_checker_of_structural_schemas_refuses_what_pydantic_makes() -> None:
    found = list(violations(catalog.kind_named("PodQOS").model_of().model_json_schema()))
    assert any("$defs" in line for line in found)
    assert any("has no type" in line for line in found)


@every_kind
def test_names_scope_and_columns_are_those_of_the_declaration(kind: Kind) -> None:
    made = definition(kind)
    spec = made["spec"]
    assert made["metadata"]["name"] == f"{kind.plural}.slackwater.io"
    assert f"{spec['group']}/{spec['versions'][0]['name']}" == API_VERSION
    assert (spec["scope"], spec["names"]["categories"]) == ("Cluster", ["slackwater"])
    assert set(spec["names"].get("shortNames", [])) == set(kind.short) - BUILT_IN_SHORT
    columns = spec["versions"][0]["additionalPrinterColumns"]
    titles = [column["name"] for column in columns]
    assert titles[-3:] == ["FOLLOWED", "REASON", "AGE"]
    assert set(titles[:-3]) <= {column.title for column in kind.columns}
    assert all(column["jsonPath"].startswith(".") for column in columns)
    assert spec["versions"][0]["subresources"] == {"status": {}}


@every_kind
def test_conditions_have_the_observed_generation_and_a_key(kind: Kind) -> None:
    status = schema_of(kind)["properties"]["status"]["properties"]
    conditions = status["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["properties"].keys() >= {"observedGeneration", "lastTransitionTime", "reason", "message"}
    assert status["observedGeneration"]["type"] == "integer"


@every_kind
def test_every_cell_of_kubectl_is_a_field_of_the_schema(kind: Kind) -> None:
    schema = schema_of(kind)
    for column in definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"]:
        if column["jsonPath"].startswith(".metadata") or "[?(" in column["jsonPath"]:
            continue
        found: dict[str, Any] = schema
        for step in column["jsonPath"].removeprefix(".").split("."):
            if found.get("x-kubernetes-preserve-unknown-fields"):
                break
            found = found["properties"][step.removesuffix("[*]")]
            found = found["items"] if step.endswith("[*]") else found


@every_kind
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_it_accepts_what_the_model_accepts(kind: Kind, data: st.DataObject) -> None:
    document = data.draw(documents(kind))
    model = kind.model_of(document["metadata"]["name"])
    try:
        model.parse(document)
    except InvalidInput:
        return
    validator_of(kind).validate(document)


@every_kind
def test_it_refuses_what_the_schema_of_the_model_refuses(kind: Kind) -> None:
    example = {"apiVersion": API_VERSION, "kind": kind.name, "metadata": {"name": "gold"}, "spec": dict(kind.example)}
    plain = dict(_plain(example))
    assert accepts(kind, plain)
    assert not accepts(kind, {name: value for name, value in plain.items() if name != "spec"})
    assert not accepts(kind, {**plain, "metadata": {"name": "Not A Name"}})
    assert not accepts(kind, {**plain, "spec": []})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Autonomy", {}),
        ("Autonomy", {"mode": "destroy"}),
        ("Autonomy", {"mode": "evict", "holdSeconds": 0}),
        ("Autonomy", {"mode": "evict", "evictionsPerHour": 100_001}),
        ("AvoidanceAction", {"throttle": {"minRatio": 1.5}}),
        ("AvoidanceAction", {"throttle": {"minRatio": "half"}}),
        ("AvoidanceAction", {"throttle": {"minCpu": "5 cores"}}),
        ("ColocationStrategy", {"cpuCalculatePolicy": "guess"}),
        ("ColocationStrategy", {"resourceDiffThreshold": 0}),
        ("ElasticQuota", {"min": {"gold": "85%"}}),
        ("NodeQOS", {"rules": [{"name": "a"}]}),
        (
            "PodQOS",
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Colour", "operator": "In", "values": ["a"]}]}},
        ),
        ("PredictPolicy", {"cadence": {"reportingIntervalSeconds": 0}}),
        ("ClusterColocationProfile", {"selector": {}, "probability": 101}),
    ],
)
def test_it_refuses(kind: str, spec: dict[str, Any]) -> None:
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "gold"}, "spec": spec}
    assert not accepts(catalog.kind_named(kind), document)


class Rates(Part):
    cpu: float = 0.5


class Mixed(Part):
    """A number or an object: the model must declare a rule, which an admission policy holds."""

    RULES: ClassVar[tuple[CelRule, ...]] = (CelRule("type(self.rate) == map", "an object", "rate", by_admission=True),)

    rate: float | Rates


def test_a_field_of_several_types_is_free_in_the_schema_and_held_by_a_rule() -> None:
    schema, rules = structural_schema(Mixed)
    assert schema["properties"]["rate"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert [rule.rule.message for rule in rules] == ["an object"]
    assert "x-kubernetes-validations" not in schema, "CEL of a CustomResourceDefinition does not see the field"


class Others(Part):
    kind: Literal["a"] = "a"
    rules: tuple[Rates, ...]
    selector: str | None = None


class Parents(Part):
    kind: Literal["a"] = "a"
    rules: tuple[Rates, ...] = ()
    mode: str = "observe"


def test_documents_of_two_models_have_one_schema_with_rules_for_what_differs() -> None:
    made = merged_schema(structural_schema(Others)[0], structural_schema(Parents)[0], "default")
    assert made["properties"].keys() == {"kind", "rules", "selector", "mode"}
    assert "required" not in made
    assert made["properties"]["kind"]["default"] == "a", "both have it"
    assert "default" not in made["properties"]["mode"], "only one has it"
    assert [rule["rule"] for rule in made["x-kubernetes-validations"]] == [
        "self.metadata.name == 'default' || (!has(self.mode))",
        "self.metadata.name != 'default' || (!has(self.selector))",
        "self.metadata.name == 'default' || (has(self.rules))",
    ]


def test_bounds_that_differ_by_document_are_refused() -> None:
    other = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    parent = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2}}}
    with pytest.raises(Misconfigured, match="a: the schema of default has other bounds"):
        merged_schema(other, parent, "default")


def test_cel_about_a_path_passes_what_is_missing_and_each_item_of_a_list() -> None:
    path = ("spec", "rules", ITEMS, "metricRule")
    assert at_path(path, "self.value > 0.0", "object") == (
        "!has(object.spec) || !has(object.spec.rules) || object.spec.rules.all(item2_of_object,"
        " !has(item2_of_object.metricRule) || (item2_of_object.metricRule.value > 0.0))"
    )


@every_kind
def test_an_admission_policy_is_made_where_the_schema_cannot_say_it(kind: Kind) -> None:
    rules = document_schema(kind)[1]
    objects = admission_objects(kind)
    if not rules:
        assert objects == []
        return
    policy, binding = objects
    assert len(policy["spec"]["validations"]) == len(rules)
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == [kind.plural]


@pytest.mark.parametrize("kind", catalog.KINDS, ids=lambda kind: kind.name)
def test_every_field_has_a_description(kind: Kind) -> None:
    """`kubectl explain` shows them; Kubernetes itself describes metadata."""
    schema = schema_of(kind)
    assert schema["description"]
    assert [path for part in ("spec", "status") for path in _undescribed(schema["properties"][part], part)] == []


def _undescribed(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{path}.{name}"
        yield from _undescribed(field, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, Mapping):
            yield from _undescribed(inner, f"{path}[]")
