"""The generated definitions and policies of all kinds, and how tests put them in force on an API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml
from contracts.crds import plain_manifest
from tests.kubernetes.rest import Rest, wait_until

from slackwater.resources import catalog
from slackwater.resources.kind import Kind
from slackwater.resources.names import API_VERSION

OBJECTS = list(yaml.safe_load_all(plain_manifest()))
PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}


def path_of(kind: Kind) -> str:
    return f"/apis/{API_VERSION}/{kind.plural}"


def document_of(kind: Kind, spec: Mapping[str, Any], name: str = "gold") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def definition_of(kind: Kind) -> dict[str, Any]:
    """Its generated CustomResourceDefinition."""
    name = f"{kind.plural}.slackwater.io"
    found: list[dict[str, Any]] = [one for one in OBJECTS if one["metadata"]["name"] == name and one["kind"] in PATHS]
    (definition,) = (one for one in found if one["kind"] == "CustomResourceDefinition")
    return definition


@contextmanager
def in_force(rest: Rest) -> Iterator[Rest]:
    """The API server with all definitions and policies in force."""
    for document in OBJECTS:
        rest.ensure(PATHS[document["kind"]], document)
    for kind in catalog.KINDS:
        wait_until(lambda kind=kind: rest.client.get(path_of(kind)).status_code == 200, f"{kind.name} is served")  # type: ignore[misc]
    policed = document_of(catalog.kind_named("AvoidanceAction"), {"throttle": {"minCpu": "1m"}})
    path = path_of(catalog.kind_named("AvoidanceAction"))
    wait_until(lambda: rest.create(path, policed, tried=True).status_code == 422, "policies are in force")
    yield rest
    for document in reversed(OBJECTS):
        rest.delete(f"{PATHS[document['kind']]}/{document['metadata']['name']}")
