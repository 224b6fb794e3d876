"""Pod Security: every pod of the manifests is admitted under `restricted` but the agent's, of which each thing that is
refused there is needed."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.manifests import restore, with_adapter
from tests.kubernetes.rest import Rest

LEVELS = {level: f"{level}-{uuid.uuid4().hex[:8]}" for level in ("restricted", "baseline")}
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
HOST_PATHS, HOST_TYPES = "hostPath volumes", "restricted volume types"
PRIVILEGES = {"restricted": {HOST_TYPES, "runAsNonRoot != true", "runAsUser=0"}, "baseline": {HOST_PATHS}}
"""What each level refuses of the agent: folders of its node, and user 0. No more than these."""


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod of the manifests, by the name of its workload."""
    for document in (*with_adapter(), *restore()):
        if document["kind"] not in WORKLOADS:
            continue
        spec = document["spec"]
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        template = spec["template"]
        claims = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]
        template["spec"].setdefault("volumes", []).extend(
            {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims
        )
        metadata = {"generateName": "tried-", "labels": template["metadata"].get("labels", {})}
        yield (
            document["metadata"]["name"],
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]},
        )


PODS = dict(pods())


@pytest.fixture(scope="module")
def rest(admin_kubeconfig: Path) -> Iterator[Rest]:
    rest = Rest(admin_kubeconfig)
    with rest.client:
        for level, name in LEVELS.items():
            metadata = {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}
            rest.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            for account in ("default", *PODS):
                document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
                rest.ensure(f"/api/v1/namespaces/{name}/serviceaccounts", document)
        yield rest
        for name in LEVELS.values():
            rest.delete(f"/api/v1/namespaces/{name}")


def refused(rest: Rest, level: str, pod: Mapping[str, Any]) -> set[str]:
    """The names of what a level refuses of a pod; nothing if it is admitted without a warning."""
    answer = rest.create(f"/api/v1/namespaces/{LEVELS[level]}/pods", pod, tried=True)
    if answer.status_code == 201:
        assert "warning" not in answer.headers, answer.headers["warning"]
        return set()
    assert answer.status_code == 403, answer.text
    message = answer.json()["message"]
    _, found, listed = message.partition(f'violates PodSecurity "{level}:latest": ')
    assert found, message
    return set(re.findall(r"(?:^|, )([^,()]+) \(", listed))


@pytest.mark.parametrize("name", sorted(PODS.keys() - {"agent"}))
def test_a_pod_of_the_control_plane_is_admitted_under_restricted(rest: Rest, name: str) -> None:
    assert refused(rest, "restricted", PODS[name]) == set()


@pytest.mark.parametrize("level", LEVELS)
def test_the_agent_needs_exactly_what_the_page_lists(rest: Rest, level: str) -> None:
    assert refused(rest, level, PODS["agent"]) == PRIVILEGES[level]


def test_the_agent_without_its_privileges_would_be_admitted(rest: Rest) -> None:
    """One after another: nothing else is behind what the messages name."""
    pod = copy.deepcopy(PODS["agent"])
    spec, left = pod["spec"], set(PRIVILEGES["restricted"])
    spec["volumes"] = [{"name": volume["name"], "emptyDir": {}} for volume in spec["volumes"]]
    left.remove(HOST_TYPES)
    assert refused(rest, "restricted", pod) == left
    assert refused(rest, "baseline", pod) == set()
    for container in spec["containers"]:
        container["securityContext"] |= {"runAsUser": 65532, "runAsNonRoot": True}
    assert refused(rest, "restricted", pod) == set()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"privileged": True, "allowPrivilegeEscalation": True}, "privileged"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation != false"),
        ({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}}, "unrestricted capabilities"),
        ({"capabilities": {}}, "unrestricted capabilities"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
    ],
)
def test_a_privilege_that_the_agent_gave_up_would_be_refused(rest: Rest, more: dict[str, Any], name: str) -> None:
    """The list above would show it: the test can fail."""
    pod = copy.deepcopy(PODS["agent"])
    (container,) = pod["spec"]["containers"]
    container["securityContext"] |= more
    assert name in refused(rest, "restricted", pod) - PRIVILEGES["restricted"]
