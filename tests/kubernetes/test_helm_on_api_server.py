"""The chart on a real control plane: installed, upgraded, refused in the middle, taken over from plain manifests.

kwok plays the kubelets: it runs no container, and completes the pods of jobs.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.definitions import document_of, path_of
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, HelmRefused, call, rendered
from tests.kubernetes.rest import TRIED, Rest, wait_until

from slackwater.cli.cluster_snapshot import installed_kinds
from slackwater.resources import catalog
from slackwater.resources.kind import Kind

MANIFESTS = CHART.parents[1] / "kubernetes"
HOW_TO = CHART.parents[2] / "docs" / "how-to" / "install-on-kubernetes.md"
PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "kube-apiserver", "etcd")
ROLL_SECONDS = 180
"""Bound for controllers, scheduler and kwok on a busy machine; they need about 5."""
CLUSTER = {"kubernetes": {"enabled": True, "documents": True}}
pytestmark = [pytest.mark.timeout(4 * ROLL_SECONDS), pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)]
NEVER = {"migration": {"nodeSelector": {"there": "is-none"}}}
"""Values with which the job migrate cannot run."""


class Site:
    """A cluster and one release in its namespace."""

    def __init__(self, plane: ControlPlane, admin: Rest, namespace: str) -> None:
        self.plane, self.admin, self.namespace = plane, admin, namespace
        self.values = {"agent": {"namespace": f"{namespace}-node"}}

    def helm(self, action: str, chart: Path = CHART, values: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return call(
            action,
            kubeconfig=str(self.plane.kubeconfig),
            namespace=self.namespace,
            chart=str(chart),
            name="slackwater",
            values={**self.values, **(values or {})},
            wait="hookOnly",
            **options,
        )

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

    def deployments(self) -> dict[str, dict[str, Any]]:
        items = self.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments")["items"]
        return {one["metadata"]["name"]: one for one in items}

    def images(self) -> set[str]:
        containers = (one["spec"]["template"]["spec"]["containers"] for one in self.deployments().values())
        return {found[0]["image"] for found in containers}

    def document(self, kind: Kind) -> dict[str, Any]:
        """Creates the example of a kind; returns it."""
        wait_until(lambda: self.admin.client.get(path_of(kind)).is_success, f"{kind.name} is served")
        return self.admin.ensure(path_of(kind), document_of(kind, kind.example))

    def kinds(self) -> Mapping[str, bool]:
        """The installed definitions, and whether each is of this version, as `slackwater doctor` judges."""
        found, _ = installed_kinds(self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"])
        assert found is not None
        return {name: kind.is_current for name, kind in found.items()}

    def migrated(self) -> str:
        """When the job migrate succeeded; empty if it has not."""
        job = self.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/migrate")
        return str(job["status"].get("completionTime") or "")


@pytest.fixture(scope="module")
def plane(servers_home: Path) -> Iterator[ControlPlane]:
    """A control plane with controllers and a node, of this module."""
    made = this_build()
    if not made.has(PROGRAMS):
        pytest.skip("a release needs controllers: `make kubernetes` builds them")
    with running(made.folder, servers_home / "helm", ("controllers", "scheduler", "kwok")) as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Iterator[Rest]:
    rest = Rest(plane.kubeconfig)
    with rest.client:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}}
        rest.ensure("/api/v1/nodes", node)
        yield rest


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The chart of an earlier state, as version 0.0.9: what contracts/helm_chart.py of commit 3ff9beff makes of the
    manifests of that commit and the definitions of 941ed2d3 and ad1591c0, without dashboards. It has no webhook and no
    quotas, an agent without rights, an older NodeQOS and older admission policies."""
    with tarfile.open(Path(__file__).parent / "previous" / "slackwater-0.0.9.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "slackwater"


def test_a_release_is_installed_refused_upgraded_and_removed(
    plane: ControlPlane, admin: Rest, previous: Path, tmp_path: Path
) -> None:
    site = Site(plane, admin, "slackwater")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": site.namespace, "labels": labels}
    admin.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    site.helm("install", previous, timeout=ROLL_SECONDS)
    assert site.images() == {"slackwater:0.0.9"}
    wait_until(lambda: bool(site.migrated()), "the first migration", ROLL_SECONDS)
    documents = {
        kind: site.document(kind) for kind in map(catalog.kind_named, ("AvoidanceAction", "NodeQOS", "Autonomy"))
    }
    assert {kind.plural for kind in catalog.KINDS} - site.kinds().keys() == {
        *("elasticquotas", "quotaprofiles", "deschedulerprofiles"),
        *("podmigrationjobs", "reservations", "arbitrationargs"),
    }
    assert not any(site.kinds().values()), "fields have descriptions since"

    with pytest.raises(HelmRefused, match="migrate"):
        site.helm("upgrade", values=NEVER, timeout=3)
    assert site.images() == {"slackwater:0.0.9"}, "nothing rolls before the migration"

    site.helm("upgrade", values=CLUSTER, timeout=ROLL_SECONDS)
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert site.images() == {f"slackwater:{version}"}
    migrated = site.migrated()
    sets = site.get(f"/apis/apps/v1/namespaces/{site.namespace}/replicasets")["items"]
    new = [one for one in sets if one["spec"]["template"]["spec"]["containers"][0]["image"].endswith(version)]
    assert len(new) == len(site.deployments())
    assert min(one["metadata"]["creationTimestamp"] for one in new) >= migrated != ""

    assert site.kinds() == {kind.plural: True for kind in catalog.KINDS}, "definitions are upgraded with the chart"
    for kind, before in documents.items():
        path = f"{path_of(kind)}/gold"
        assert site.get(path) == before, "documents of the older version stay"
        answer = admin.client.put(path, json=before, params=TRIED)
        assert answer.is_success, answer.text

    strict = tmp_path / "all.yaml"
    strict.write_text(yaml.safe_dump_all(rendered({**site.values, **CLUSTER})[0]))
    site.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", str(strict)
    )
    wait_until(lambda: all(map(is_ready, site.deployments().values())), "every pod is admitted and ready", ROLL_SECONDS)

    call("uninstall", kubeconfig=str(plane.kubeconfig), namespace="slackwater", name="slackwater")
    wait_until(lambda: not site.deployments(), "the services are gone", ROLL_SECONDS)
    definitions = site.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert len(definitions) == 13, "documents outlive the release"


def test_plain_manifests_are_taken_over(plane: ControlPlane, admin: Rest) -> None:
    site = Site(plane, admin, "slackwater")
    site.kubectl("delete", "job/migrate", "--ignore-not-found", "--namespace", site.namespace)
    site.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS))
    before = {name: one["metadata"]["uid"] for name, one in site.deployments().items()}
    site.helm("install", timeout=ROLL_SECONDS, native=flags())
    assert {name: one["metadata"]["uid"] for name, one in site.deployments().items()} == before
    job = site.get(f"/apis/batch/v1/namespaces/{site.namespace}/jobs/migrate")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade", "PostgreSQL is there already"
    assert site.migrated()


def is_ready(deployment: Mapping[str, Any]) -> bool:
    return bool(deployment["status"].get("updatedReplicas") == deployment["status"].get("readyReplicas") == 2)


def flags() -> dict[str, bool]:
    """The options of the command in the page that takes plain manifests over."""
    text = HOW_TO.read_text().partition("## From plain manifests")[2].partition("## ")[0]
    return {name.replace("-", "_"): True for name in re.findall(r"--(take-ownership|force-conflicts)\b", text)}
