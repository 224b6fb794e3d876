"""The hook's command on a real API server, with exactly the rights that the chart gives its account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import IS_THERE, WHY_NOT
from tests.kubernetes.release import Site, decoded
from tests.kubernetes.rest import Rest

from slackwater.cli.secret_files import readers

pytestmark = [pytest.mark.skipif(not IS_THERE, reason=WHY_NOT), pytest.mark.timeout(300)]
PREFIX = "blue-slackwater-"
NODES = "/api/v1/nodes"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@pytest.fixture
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """A release whose accounts and rights are there, without its controllers."""
    admin = Rest(control_plane.kubeconfig)
    with admin.client:
        made = Site(control_plane, admin, "lending", "blue", {"agent": {"namespace": "agents"}})
        for name in ("lending", "agents"):
            admin.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        admin.ensure(NODES, node("n1"))
        for one in made.rendered():
            if one["kind"] in PATHS and "secrets" in one["metadata"]["name"]:
                admin.ensure(PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)
        try:
            yield made
        finally:
            for name in ("n1", "n2"):
                admin.delete(f"{NODES}/{name}")


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


@pytest.mark.parametrize(("kind", "account"), [("Job", "secrets-hook"), ("CronJob", "secrets")])
def test_its_rights_suffice_and_reach_nothing_else(site: Site, tmp_path: Path, kind: str, account: str) -> None:
    (workload,) = (one for one in site.rendered() if (one["kind"], one["metadata"]["name"]) == (kind, PREFIX + account))
    spec = workload["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else workload["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["template"]["spec"]["serviceAccountName"] == PREFIX + account
    kubeconfig = site.as_account(PREFIX + account, tmp_path)
    for name in site.secrets():
        site.admin.delete(f"/api/v1/namespaces/lending/secrets/{name}")
    printed = site.run(container["args"], kubeconfig)
    secrets = site.secrets()
    assert secrets.keys() == {PREFIX + name for name in readers()}
    contents = {value.strip() for data in secrets.values() for value in decoded(data).values()}
    assert not [value for value in contents if value and value in printed]
    assert "nothing to change" in site.run(container["args"], kubeconfig)
    assert site.secrets() == secrets

    site.admin.ensure(NODES, node("n2"))
    assert "nothing to change" in site.run(container["args"], kubeconfig), "a node that joins changes no Secret"
    agents = site.get(f"/api/v1/namespaces/agents/secrets/{PREFIX}agent-access")["data"]
    assert agents.keys() == {"ca.crt", "tokens", "enrolment.creds"}

    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "of-others", "namespace": "lending"}}
    with Rest(kubeconfig).client as limited:
        for answer in (
            limited.post("/api/v1/namespaces/lending/secrets", json=other),
            limited.get("/api/v1/namespaces/lending/secrets"),
            limited.get("/api/v1/namespaces/kube-system/secrets/any"),
            limited.get(f"/api/v1/namespaces/agents/secrets/{PREFIX}ca"),
            limited.delete(f"/api/v1/namespaces/lending/secrets/{PREFIX}ca"),
            limited.get("/api/v1/pods"),
            limited.get("/api/v1/nodes"),
        ):
            assert answer.status_code == 403, answer.text


def test_every_secret_that_a_pod_mounts_is_made_with_the_files_that_it_names(site: Site, tmp_path: Path) -> None:
    (job,) = (one for one in site.rendered() if one["kind"] == "Job" and one["metadata"]["name"].endswith("hook"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    site.run(container["args"], site.as_account(f"{PREFIX}secrets-hook", tmp_path))
    made = {**site.secrets(), **{name: one["data"] for name, one in agents_secrets(site).items()}}
    files = 0
    for one in site.rendered({"kubernetes": {"enabled": True, "documents": True}}):
        spec = one["spec"]["jobTemplate"]["spec"] if one["kind"] == "CronJob" else one.get("spec", {})
        pod = spec["template"]["spec"] if "template" in spec else spec if one["kind"] == "Pod" else {}
        mounted = {
            volume["name"]: source["name" if "projected" in volume else "secretName"]
            for volume in pod.get("volumes", [])
            for part in volume.get("projected", {"sources": [volume]})["sources"]
            if (source := part.get("secret"))
        }
        for container in pod.get("containers", []):
            paths = {mount["mountPath"]: mounted.get(mount["name"]) for mount in container["volumeMounts"]}
            for variable in container.get("env", []):
                folder, _, file = variable.get("value", "").rpartition("/")
                if paths.get(folder):
                    files += 1
                    made_or_projected = {*made[str(paths[folder])], "identity"}
                    assert file in made_or_projected, (one["metadata"], variable)
    assert files > 30


def agents_secrets(site: Site) -> dict[str, dict[str, Any]]:
    return site.items("/api/v1/namespaces/agents/secrets")
