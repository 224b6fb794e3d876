"""A real API server takes the generated definitions and policies, and judges documents as the models do."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.kubernetes.build import this_build
from tests.kubernetes.definitions import OBJECTS, PATHS, document_of, in_force, path_of
from tests.kubernetes.drawn_documents import documents
from tests.kubernetes.rest import Rest, wait_until

from slackwater.model.errors import InvalidInput
from slackwater.resources import catalog
from slackwater.resources.crd.definition import short_names
from slackwater.resources.kind import Kind

every_kind = pytest.mark.parametrize("kind", catalog.KINDS, ids=lambda kind: kind.name)

ONLY_THE_SERVICE_KNOWS = re.compile(
    r"is not a metric|is above the maximum of|which is not a unit of this quantity|less than one byte"
    r"|is not a quantity that can be kept exactly|is out of range|is not a whole number of|must be 0 to 9,007"
    r"|needs a target|must be at least 0\.4|must lie between 0 and 1|must be below the value"
    r"|spec\.resources: Value error, .* is not a quantity|spec\.plugins\.[0-9]+\.args\."
)
"""What depends on the registry of metrics or of plugins, which the API server does not have, or on exact decimal
arithmetic in the unit that the name of a resource has. The service refuses it when it reads the document, and says so
in the condition Followed."""


@pytest.fixture(scope="module")
def rest(admin_kubeconfig: Path) -> Iterator[Rest]:
    rest = Rest(admin_kubeconfig)
    yield rest
    rest.client.close()


@pytest.fixture(scope="module")
def installed(rest: Rest) -> Iterator[Rest]:
    with in_force(rest):
        yield rest


@pytest.mark.parametrize("document", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_a_dry_run_accepts_it_without_a_warning(rest: Rest, document: dict[str, Any]) -> None:
    answer = rest.create(PATHS[document["kind"]], document, tried=True)
    assert answer.status_code in (201, 409), answer.text
    assert "warning" not in answer.headers, answer.headers["warning"]


@every_kind
def test_it_is_established_under_its_names(installed: Rest, kind: Kind) -> None:
    path = f"{PATHS['CustomResourceDefinition']}/{kind.plural}.slackwater.io"

    def conditions() -> dict[str, str]:
        found = installed.client.get(path).json()["status"].get("conditions", ())
        return {one["type"]: one["status"] for one in found}

    wait_until(lambda: conditions().get("Established") == "True", "established")
    assert conditions().get("NonStructuralSchema") is None
    assert conditions()["NamesAccepted"] == "True"


@every_kind
def test_it_stores_the_example_and_fills_in_defaults_as_the_model_does(installed: Rest, kind: Kind) -> None:
    document = document_of(kind, plain(kind.example))
    answer = installed.create(path_of(kind), document, tried=True)
    assert answer.status_code == 201, answer.text
    stored = {**answer.json(), "metadata": {"name": "gold"}}
    model = kind.model_of("gold")
    assert model.parse(stored).document()["spec"] == model.parse(document).document()["spec"]


@every_kind
@settings(
    max_examples=50, deadline=None, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_it_judges_documents_as_the_model_does(installed: Rest, kind: Kind, data: st.DataObject) -> None:
    document = data.draw(documents(kind))
    answer = installed.create(path_of(kind), document, tried=True)
    refusal = refusal_of(kind, document)
    if refusal is None:
        assert answer.status_code == 201, answer.text
    elif not ONLY_THE_SERVICE_KNOWS.search(refusal):
        assert answer.status_code in (400, 422), f"the model says {refusal}; the API server stores {document}"


def refusal_of(kind: Kind, document: dict[str, Any]) -> str | None:
    """What the model says against a document."""
    try:
        kind.model_of(document["metadata"]["name"]).parse(document)
    except InvalidInput as refused:
        return str(refused)
    return None


RESERVED = {"resources": {"cpu": 1}, "owners": [{"name": "a"}]}
REFUSALS = pytest.mark.parametrize(
    ("kind", "name", "spec", "said"),
    [
        ("Autonomy", "gold", {"mode": "destroy"}, 'spec.mode: Unsupported value: "destroy"'),
        ("Autonomy", "gold", {"mode": "evict", "colour": 1}, 'unknown field "spec.colour"'),
        (
            "AvoidanceAction",
            "gold",
            {"throttle": {"minRatio": "1.5"}},
            "minRatio: must be a number or its text, >= 0, <= 1",
        ),
        ("AvoidanceAction", "gold", {"throttle": {"minRatio": True}}, "spec.throttle.minRatio: must be a number"),
        ("AvoidanceAction", "gold", {"memory": {"minMemory": "1k"}}, "spec.memory.minMemory: must be 4096 bytes"),
        ("ColocationStrategy", "gold", {"nodePool": "a", "nodeSelector": {}}, "both say which nodes"),
        ("ColocationStrategy", "default", {"precedence": 1}, "the document default is for every node"),
        ("NodeQOS", "gold", {"rules": [], "mode": "evict"}, "spec.mode is only for the document default"),
        (
            "NodeQOS",
            "gold",
            {"rules": [{"name": "a", "metricRule": {"name": "node_cpu_usage_ratio", "value": "85%"}}]},
            "spec.rules[].actionName is required, but in default",
        ),
        (
            "NodeQOS",
            "default",
            {"rules": [{"name": "a", "metricRule": {"name": "x", "value": "80%", "target": "90%"}}]},
            "spec.rules[].metricRule.target: must not be below 0 or above the value",
        ),
        (
            "NodeQOS",
            "default",
            {"rules": [{"name": "a", "metricRule": {"name": "x", "value": 1}}] * 2},
            "Duplicate value",
        ),
        (
            "PodQOS",
            "gold",
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Priority", "operator": "In", "values": ["9-5"]}]}},
            "a priority or a range such as",
        ),
        ("PredictPolicy", "default", {"nodePool": "gold"}, "the document default is for every pool"),
        ("PredictPolicy", "gold", {"violationRate": {"cpu": 2}}, "spec.violationRate: must be above 0 and below 1"),
        (
            "PredictPolicy",
            "gold",
            {"violationRate": 0.1, "models": {"cpu": {"name": "a", "settings": {"violation_rate": 0.2}}}},
            "say the same twice",
        ),
        ("Reservation", "gold", {**RESERVED, "expires": "2"}, "spec.expires"),
        ("Reservation", "gold", {**RESERVED, "expires": "2026-11-26T03:45:00"}, "spec.expires"),
        ("ArbitrationArgs", "gold", {"maxMigratingPerWorkload": True}, "maxMigratingPerWorkload"),
        (
            "DeschedulerProfile",
            "gold",
            {
                "lowNodeLoad": {
                    "nodePools": [{"name": "a", "prodLowThresholds": {"cpu": 9}, "prodHighThresholds": {"cpu": 8}}]
                }
            },
            "must not be above prodHighThresholds",
        ),
        ("ElasticQuota", "gold", {"min": {"gold": "85%"}}, 'spec.min.gold: Invalid value: "85%"'),
        ("ClusterColocationProfile", "gold", {"selector": {}, "labels": {"a..b/x": "y"}}, "keys must have"),
        (
            "ClusterColocationProfile",
            "gold",
            {"selector": {}, "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "a"}},
            "may refuse pods with annotations that begin with",
        ),
        (
            "ClusterColocationProfile",
            "gold",
            {"selector": {}, "annotationKeysMapping": {"a": "controller.kubernetes.io/pod-deletion-cost"}},
            "may refuse pods with a value of another annotation",
        ),
        ("ClusterColocationProfile", "gold", {"tier": "batch"}, "selector or namespaceSelector is required"),
        ("ClusterColocationProfile", "gold", {"selector": {}, "tier": "prod", "qosClass": "BE"}, "the QoS class is"),
    ],
)


@REFUSALS
def test_the_model_refuses_the_same(kind: str, name: str, spec: dict[str, Any], said: str) -> None:
    del said  # it has words of its own
    assert refusal_of(catalog.kind_named(kind), document_of(catalog.kind_named(kind), spec, name)) is not None


@REFUSALS
def test_a_refusal_names_the_field_and_the_reason(
    installed: Rest, kind: str, name: str, spec: dict[str, Any], said: str
) -> None:
    declared = catalog.kind_named(kind)
    answer = installed.create(path_of(declared), document_of(declared, spec, name), tried=True)
    assert answer.status_code in (400, 422), answer.text
    assert said in answer.json()["message"]


@pytest.fixture(scope="module")
def kubectl(installed: Rest) -> Any:
    program = this_build().folder / "kubectl"
    found = str(program) if program.is_file() else shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl: `make kubernetes` builds one, or put one on PATH")

    def run(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [str(found), f"--kubeconfig={installed.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kubectl_applies_shows_explains_and_waits(installed: Rest, kubectl: Any) -> None:
    examples = [document_of(kind, plain(kind.example)) for kind in catalog.KINDS]
    try:
        kubectl("apply", "-f", "-", given=yaml.safe_dump_all(examples))
        for kind in catalog.KINDS:
            follow(installed, kind)
        shown = kubectl("get", "slackwater", "-A")
        for kind in catalog.KINDS:
            assert f"{kind.noun}.slackwater.io/gold" in shown
            rows = kubectl("get", [kind.plural, *short_names(kind)][-1]).splitlines()
            assert rows[0].split()[0] == "NAME"
            assert rows[0].split()[-2:] == ["FOLLOWED", "AGE"]
            assert rows[1].split()[-2] == "True"
        waited = kubectl("wait", "--for=condition=Followed", *(f"{kind.plural}/gold" for kind in catalog.KINDS))
        assert waited.count("condition met") == len(catalog.KINDS)
        described = kubectl("describe", "autonomy", "gold")
        assert "Observed Generation:" in described
        assert "AsStored" in described
        assert "percent of the selected workloads" in kubectl("explain", "ccp.spec.probability")
        assert "observe\n    throttle\n    evict\n" in kubectl("explain", "autonomies.spec.mode")
    finally:
        for kind in catalog.KINDS:
            installed.delete(f"{path_of(kind)}/gold")


def follow(rest: Rest, kind: Kind) -> None:
    """Write the status that the service writes."""
    path = f"{path_of(kind)}/gold"
    document = rest.client.get(path).json()
    condition = {
        "type": "Followed",
        "status": "True",
        "reason": "AsStored",
        "message": "",
        "observedGeneration": document["metadata"]["generation"],
        "lastTransitionTime": "2026-11-25T12:00:00Z",
    }
    document["status"] = {"observedGeneration": document["metadata"]["generation"], "conditions": [condition]}
    answer = rest.client.put(f"{path}/status", json=document)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["generation"] == document["metadata"]["generation"], (
        "a status is no new generation"
    )


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


ROLES = {
    "viewer": {"list"},
    "operator": {"list", "patch", "delete"},
    "admin": {"list", "patch", "delete", "deletecollection"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_its_rights_and_no_others(installed: Rest, role: str) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"tests-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"slackwater-{role}"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"tests-{role}"}],
    }
    installed.ensure(BINDINGS, binding)
    try:
        wait_until(lambda: _may(installed, role, "list", "autonomies"), f"{role} is bound")
        for kind in catalog.KINDS:
            tried = ("list", "patch", "delete", "deletecollection")
            assert {verb for verb in tried if _may(installed, role, verb, kind.plural)} == ROLES[role]
        assert not _may(installed, role, "patch", "autonomies", "status")
    finally:
        installed.delete(f"{BINDINGS}/tests-{role}")


BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _may(rest: Rest, role: str, verb: str, resource: str, subresource: str = "") -> bool:
    attributes = {"group": "slackwater.io", "resource": resource, "subresource": subresource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"tests-{role}", "resourceAttributes": attributes},
    }
    answer = rest.client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
    assert answer.status_code == 201, answer.text
    allowed: bool = answer.json()["status"]["allowed"]
    return allowed
