"""A release of the chart in a cluster, for the tests of it."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import document_of, path_of
from tests.kubernetes.helm import CHART, call, rendered
from tests.kubernetes.rest import Rest, wait_until

from slackwater.cli.cluster_snapshot import installed_kinds
from slackwater.resources.kind import Kind


class Site:
    """A cluster and one release in its namespace."""

    def __init__(
        self, plane: ControlPlane, admin: Rest, namespace: str, name: str, values: Mapping[str, Any] | None = None
    ) -> None:
        self.plane, self.admin, self.namespace, self.name = plane, admin, namespace, name
        self.values = dict(values or {})

    def helm(self, action: str, chart: Path = CHART, values: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return call(
            action,
            kubeconfig=str(self.plane.kubeconfig),
            namespace=self.namespace,
            chart=str(chart),
            name=self.name,
            values={**self.values, **(values or {})},
            wait="hookOnly",
            **options,
        )

    def uninstall(self) -> None:
        call("uninstall", kubeconfig=str(self.plane.kubeconfig), namespace=self.namespace, name=self.name)

    def rendered(self, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        (objects,) = rendered({**self.values, **(values or {})}, namespace=self.namespace, name=self.name)
        return objects

    def kubectl(self, *arguments: str) -> str:
        command = [str(this_build().folder / "kubectl"), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> dict[str, Any]:
        answer = self.admin.client.get(path)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def items(self, path: str) -> dict[str, dict[str, Any]]:
        """Objects of the release by name."""
        labels = {"labelSelector": f"app.kubernetes.io/instance={self.name}"}
        answer = self.admin.client.get(path, params=labels)
        assert answer.is_success, answer.text
        return {one["metadata"]["name"]: one for one in answer.json()["items"]}

    def deployments(self) -> dict[str, dict[str, Any]]:
        items = self.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments")["items"]
        return {one["metadata"]["name"]: one for one in items}

    def images(self) -> set[str]:
        containers = (one["spec"]["template"]["spec"]["containers"] for one in self.deployments().values())
        return {found[0]["image"] for found in containers}

    def secrets(self) -> dict[str, Mapping[str, str]]:
        """The data of all secrets of the release."""
        found = self.items(f"/api/v1/namespaces/{self.namespace}/secrets")
        return {name: one["data"] for name, one in found.items() if one["type"] == "Opaque" and one.get("data")}

    def document(self, kind: Kind) -> dict[str, Any]:
        """Creates the example of a kind; returns it."""
        wait_until(lambda: self.admin.client.get(path_of(kind)).is_success, f"{kind.name} is served")
        return self.admin.ensure(path_of(kind), document_of(kind, kind.example))

    def kinds(self) -> Mapping[str, bool]:
        """The installed definitions, and whether each is of this version, as `slackwater doctor` judges."""
        found, _ = installed_kinds(self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"])
        assert found is not None
        return {name: kind.is_current for name, kind in found.items()}

    def migrated(self, job: str) -> str:
        """When a job succeeded; empty if it has not."""
        found = self.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{job}")
        return str(found["status"].get("completionTime") or "")

    def as_account(self, account: str, folder: Path) -> Path:
        """The kubeconfig of a service account of the release."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        token = self.admin.create(path, request).json()["status"]["token"]
        document = yaml.safe_load(self.plane.kubeconfig.read_text())
        document["users"] = [{**user, "user": {"token": token}} for user in document["users"]]
        kubeconfig = folder / f"{account}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        return kubeconfig

    def run(self, arguments: Iterable[str], kubeconfig: Path) -> str:
        """What a container's command writes, run as a process in place of it. It ends with 0."""
        command = [sys.executable, "-m", "slackwater.cli", *arguments, "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def decoded(data: Mapping[str, str]) -> dict[str, str]:
    return {name: base64.b64decode(value).decode() for name, value in data.items()}
