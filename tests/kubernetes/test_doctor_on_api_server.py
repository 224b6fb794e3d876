"""`slackwater doctor --kubernetes` on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from contracts.crds import crd_objects
from tests.kubernetes.drivers import rights
from tests.kubernetes.manifests import find
from tests.kubernetes.rest import Rest
from typer.testing import CliRunner

from slackwater.cli.main import app

NAMESPACE = "koordinator-system"
PODS = {
    "metadata": {"labels": {"app": "koordlet"}},
    "spec": {"containers": [{"name": "koordlet", "image": "koordlet"}]},
}
KOORDLET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "koordlet", "namespace": NAMESPACE},
    "spec": {"selector": {"matchLabels": {"app": "koordlet"}}, "template": PODS},
}


def checked(kubeconfig: Path, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status, and the worst finding of each check."""
    done = CliRunner().invoke(app, ["doctor", "--kubernetes", "--kubeconfig", str(kubeconfig), "-o", "json", *options])
    assert done.exit_code in (0, 3), done.output
    found: dict[str, dict[str, Any]] = {}
    for one in json.loads(done.stdout)["items"]:
        if one["check"] not in found or one["level"] != "ok":
            found[one["check"]] = one
    return done.exit_code, found


@pytest.fixture
def admin(admin_kubeconfig: Path) -> Iterator[Rest]:
    rest = Rest(admin_kubeconfig)
    with rest.client:
        yield rest


def test_an_administrator_may_install_and_what_is_there_is_seen(admin: Rest) -> None:
    namespaces, sets = "/api/v1/namespaces", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    admin.ensure(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for definition in crd_objects()["nodeqos"]:
        if definition["kind"] == "CustomResourceDefinition":
            admin.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "doctor-node"}}
    try:
        admin.ensure(sets, KOORDLET)
        admin.ensure("/api/v1/nodes", node)
        status = {"capacity": {"kubernetes.io/batch-cpu": "1k"}, "allocatable": {"kubernetes.io/batch-cpu": "1k"}}
        answer = admin.client.patch(
            "/api/v1/nodes/doctor-node/status?fieldManager=koord-manager",
            json={"status": status},
            headers={"content-type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text
        status_code, found = checked(admin.kubeconfig)
    finally:
        admin.delete(f"{sets}/koordlet")
        admin.delete("/api/v1/nodes/doctor-node")
    assert "Kubernetes v1." in found["cluster"]["seen"]
    assert (found["rights"]["level"], found["admission"]["level"]) == ("ok", "ok")
    assert (found["storage"]["level"], "none" in found["storage"]["seen"]) == ("warn", True)
    assert "nodeqos" not in found["kinds"]["seen"].partition("missing")[0], "the installed one is of this version"
    assert "koordinator-system/koordlet" in found["writers"]["seen"]
    assert "kubernetes.io/batch-cpu in the status of 1 node, written by an unnamed" in found["lent"]["seen"]
    assert status_code == 0, "its DaemonSet has no pod"


def test_an_account_without_rights_is_told_each_it_lacks(admin: Rest, tmp_path: Path) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nothing"}}
    admin.ensure("/api/v1/namespaces/default/serviceaccounts", account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = admin.create("/api/v1/namespaces/default/serviceaccounts/nothing/token", request)
    document = yaml.safe_load(admin.kubeconfig.read_text())
    token = answer.json()["status"]["token"]
    document["users"] = [{**user, "user": {"token": token}} for user in document["users"]]
    kubeconfig = tmp_path / "nothing.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    status_code, found = checked(kubeconfig)
    assert status_code == 3
    assert "create namespaces, patch namespaces" in found["rights"]["seen"]
    assert found["nodes"]["seen"].startswith("not checked")
    assert "system:serviceaccount:default:nothing" in found["cluster"]["seen"]


@pytest.mark.usefixtures("real")
def test_rights_of_the_installed_service_are_checked(admin: Rest) -> None:
    _, found = checked(admin.kubeconfig)
    assert found["rights"]["level"] == "ok"
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    admin.ensure(role, {**_role(), "rules": _role()["rules"][1:]})
    status_code, found = checked(admin.kubeconfig)
    admin.ensure(role, _role())
    assert (status_code, found["rights"]["level"]) == (3, "fail")
    assert found["rights"]["seen"].startswith("the service kubernetes may not list ")


def _role() -> dict[str, Any]:
    return find(rights(), "ClusterRole", "slackwater-kubernetes")
