"""The chart on a real control plane: installed, upgraded, refused in the middle, taken over from plain manifests.

kwok plays the kubelets: it runs no container, and completes the pods of jobs.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from contracts.manifests import plain_values
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.definitions import path_of
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, HelmRefused, call
from tests.kubernetes.manifests import release
from tests.kubernetes.release import Site, decoded
from tests.kubernetes.rest import TRIED, Rest, wait_until

from slackwater.cli.secret_files import readers
from slackwater.resources import catalog

HOW_TO = CHART.parents[2] / "docs" / "how-to" / "install-on-kubernetes.md"
PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "kube-apiserver", "etcd")
ROLL_SECONDS = 180
"""Bound for controllers, scheduler and kwok on a busy machine; they need about 5."""
CLUSTER = {"kubernetes": {"enabled": True, "documents": True}}
pytestmark = [pytest.mark.timeout(4 * ROLL_SECONDS), pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)]
NEVER = {"migration": {"nodeSelector": {"there": "is-none"}}}
"""Values with which the job migrate cannot run."""


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
    """The chart of this version as 0.0.9: nothing was released before. A release puts its own chart in this place."""
    shutil.copytree(CHART, tmp_path / "slackwater")
    described = tmp_path / "slackwater" / "Chart.yaml"
    version = yaml.safe_load(described.read_text())["version"]
    described.write_text(described.read_text().replace(version, "0.0.9"))
    return tmp_path / "slackwater"


def test_a_release_is_installed_refused_upgraded_and_removed(
    plane: ControlPlane, admin: Rest, previous: Path, tmp_path: Path
) -> None:
    values = {"plainNames": True, "agent": {"namespace": "slackwater-node"}}
    site = Site(plane, admin, "slackwater", "slackwater", values)
    namespace(admin, site.namespace, "restricted")
    namespace(admin, "slackwater-node", "privileged")
    site.helm("install", previous, timeout=ROLL_SECONDS)
    assert site.images() == {"docker.io/slackwater/slackwater:0.0.9"}
    wait_until(lambda: bool(site.migrated("migrate")), "the first migration", ROLL_SECONDS)
    documents = {
        kind: site.document(kind) for kind in map(catalog.kind_named, ("AvoidanceAction", "NodeQOS", "Autonomy"))
    }

    with pytest.raises(HelmRefused, match="migrate"):
        site.helm("upgrade", values=NEVER, timeout=3)
    assert site.images() == {"docker.io/slackwater/slackwater:0.0.9"}, "nothing rolls before the migration"

    assert "--reuse-values" not in HOW_TO.read_text().partition("## Upgrade")[2].partition("```\n\n")[0]
    site.helm("upgrade", values=CLUSTER, timeout=ROLL_SECONDS, native={"reset_then_reuse_values": True})
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert site.images() == {f"docker.io/slackwater/slackwater:{version}"}
    migrated = site.migrated("migrate")
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
    strict.write_text(yaml.safe_dump_all(site.rendered(CLUSTER)))
    site.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", str(strict)
    )
    wait_until(lambda: all(map(is_ready, site.deployments().values())), "every pod is admitted and ready", ROLL_SECONDS)

    site.uninstall()
    wait_until(lambda: not site.deployments(), "the services are gone", ROLL_SECONDS)
    definitions = site.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert len(definitions) == 13, "documents outlive the release"


def test_plain_manifests_are_taken_over(plane: ControlPlane, admin: Rest, tmp_path: Path) -> None:
    text = HOW_TO.read_text().partition("Helm takes over")[2].partition("## ")[0]
    assert "--values deploy/helm/slackwater/values-plain.yaml" in text
    site = Site(plane, admin, "slackwater", "slackwater", plain_values({}))
    site.kubectl("delete", "job/migrate", "--ignore-not-found", "--namespace", site.namespace)
    (applied := tmp_path / "slackwater.yaml").write_text(yaml.safe_dump_all(release()))
    site.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(applied))
    before = {name: one["metadata"]["uid"] for name, one in site.deployments().items()}
    site.helm("install", timeout=ROLL_SECONDS, native=flags(text))
    assert {name: one["metadata"]["uid"] for name, one in site.deployments().items()} == before
    job = site.get(f"/apis/batch/v1/namespaces/{site.namespace}/jobs/migrate")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade", "PostgreSQL is there already"
    assert site.migrated("migrate")
    site.uninstall()


def is_ready(deployment: Mapping[str, Any]) -> bool:
    return bool(deployment["status"].get("updatedReplicas") == deployment["status"].get("readyReplicas") == 2)


def flags(text: str) -> dict[str, bool]:
    """The options of the command in the page that takes plain manifests over."""
    return {name.replace("-", "_"): True for name in re.findall(r"--(take-ownership|force-conflicts)\b", text)}


def namespace(admin: Rest, name: str, standard: str = "privileged") -> None:
    labels = {"pod-security.kubernetes.io/enforce": standard}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    admin.ensure("/api/v1/namespaces", made)


def test_one_command_installs_under_any_name_and_leaves_what_the_page_names(
    plane: ControlPlane, admin: Rest, tmp_path: Path
) -> None:
    site = Site(plane, admin, "lending", "blue")
    namespace(admin, site.namespace)
    site.kubectl("delete", "crd", "-l", "app.kubernetes.io/part-of=slackwater")
    prefix = "blue-slackwater-"
    before = everything(site)
    site.helm("install", timeout=ROLL_SECONDS)
    hooks = [name for name in everything(site) if name.endswith("-secrets-hook")]
    assert hooks == [], "the hook's account, rights and job are gone"

    # kwok completes the job's pods and runs no container: the command runs here, as a process with the job's rights
    job = site.get(f"/apis/batch/v1/namespaces/lending/cronjobs/{prefix}secrets")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    account = site.as_account(f"{prefix}secrets", tmp_path)
    site.run(container["args"], account)
    secrets = site.secrets()
    assert secrets.keys() == {prefix + name for name in (*readers(), "agent-access")}
    contents = {value.strip() for data in secrets.values() for value in decoded(data).values()}
    text = release_text(site)
    assert not [value for value in contents if value and value in text]
    for mounted in secrets_of_pods(site):
        assert secrets[mounted], mounted
    site.helm("upgrade", values=CLUSTER, timeout=ROLL_SECONDS)
    site.run(container["args"], account)
    assert site.secrets() == secrets, "kept over upgrades"
    wait_until(lambda: all(map(is_ready, site.deployments().values())), "every pod is admitted", ROLL_SECONDS)
    strict = tmp_path / "all.yaml"
    objects = [one for one in site.rendered(CLUSTER) if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    strict.write_text(yaml.safe_dump_all(objects))
    site.kubectl("diff", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", str(strict))

    tried(site)
    site.uninstall()
    wait_until(lambda: not [pod for pod in pods_of(site) if "-migrate-" not in pod], "pods are gone", ROLL_SECONDS)
    kept = {one for one in everything(site) if one not in before and not one.startswith("pods/")}
    text = HOW_TO.read_text().partition("## Uninstall")[2]
    assert {kind for kind, _, _ in (name.split("/") for name in kept)} == {
        *("secrets", "jobs", "persistentvolumeclaims", "customresourcedefinitions")
    }, kept
    for line in re.findall(r"^kubectl .*(?:delete crd|delete secret).*$", text, re.MULTILINE):
        words = line.replace("-n slackwater", "-n lending").replace("instance=slackwater", "instance=blue").split()
        site.kubectl(*words[1:], "--wait=false")
    wait_until(lambda: not [one for one in everything(site) if one not in before], "nothing is left", ROLL_SECONDS)


def tried(site: Site) -> None:
    """`helm test`. kwok runs no container: the end of the pod is written here, as a kubelet would."""
    answers: list[Any] = []
    arguments = {"kubeconfig": str(site.plane.kubeconfig), "namespace": site.namespace, "name": site.name}
    trying = threading.Thread(target=lambda: answers.append(call("test", **arguments)))
    trying.start()
    pod = f"/api/v1/namespaces/{site.namespace}/pods/{site.name}-slackwater-test"
    wait_until(lambda: site.admin.client.get(pod).is_success, "the pod is created", ROLL_SECONDS)
    merge = {"content-type": "application/merge-patch+json"}
    while trying.is_alive():
        site.admin.client.patch(f"{pod}/status", json={"status": {"phase": "Succeeded"}}, headers=merge)
        trying.join(0.5)
    assert len(answers) == 1


LISTED = (
    *("serviceaccounts", "secrets", "services", "configmaps", "persistentvolumeclaims", "pods"),
    *("deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch"),
    *("networkpolicies", "poddisruptionbudgets", "roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    *("customresourcedefinitions", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("mutatingadmissionpolicies", "mutatingwebhookconfigurations"),
)


def everything(site: Site) -> set[str]:
    """`kind/namespace/name` of all objects in the namespace of the release, and of the cluster's."""
    columns = "custom-columns=K:.kind,N:.metadata.namespace,M:.metadata.name"
    found = set()
    for kind in LISTED:
        lines = site.kubectl(
            "get", kind, "--namespace", site.namespace, "--no-headers", "-o", columns, "--ignore-not-found"
        )
        names = [line.split()[1:] for line in lines.splitlines()]
        found |= {f"{kind.partition('.')[0]}/{where}/{name}" for where, name in names if not is_of_helm(name)}
    return found


def pods_of(site: Site) -> list[str]:
    return list(site.items(f"/api/v1/namespaces/{site.namespace}/pods"))


def is_of_helm(name: str) -> bool:
    """Of a release's history, of Kubernetes itself."""
    return name.startswith(("sh.helm.release", "system:", "kubeadm:"))


def release_text(site: Site) -> str:
    """What Helm keeps of the release."""
    arguments = {"kubeconfig": str(site.plane.kubeconfig), "namespace": site.namespace, "name": site.name}
    return str(call("get_all", **arguments))


def secrets_of_pods(site: Site) -> set[str]:
    texts = yaml.safe_dump_all(site.rendered())
    return {name for name in re.findall(r"secretName: (\S+)", texts) if name.startswith(site.name)}
