"""What `doctor --kubernetes` makes of a cluster. tests/kubernetes reads a real one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.manifests import restore, with_adapter
from typer.testing import CliRunner

from slackwater.cli.cluster_findings import (
    ClusterSnapshot,
    InstalledKind,
    LentResource,
    OtherProgram,
    examine_cluster,
    version_of,
)
from slackwater.cli.cluster_rights import AGENT_RIGHTS, INSTALL_RIGHTS, SERVICE_RIGHTS, ClusterRight
from slackwater.cli.cluster_snapshot import installed_kinds, lent_resources, other_programs
from slackwater.cli.findings import Finding, Level, exit_needed
from slackwater.cli.installed_release import PLAIN_SECRETS, installed_release
from slackwater.cli.main import app
from slackwater.resources.catalog import KINDS
from slackwater.resources.crd.definition import definition
from slackwater.runtime.service_list import service_names

ROOT = Path(__file__).resolve().parents[3]
SECRETS = ("postgres", "nats", "migrate", *service_names())
KIND_NAMES = ("elasticquotas", "nodeqos")
WELL = ClusterSnapshot(
    url="https://127.0.0.1:6443",
    version="v1.37.2",
    user="admin",
    policies=frozenset({"mutating", "validating"}),
    missing_service_rights=(),
    storage_classes={"local": True},
    kinds={name: InstalledKind(name, ("v1alpha1",), True) for name in KIND_NAMES},
    known_kinds=KIND_NAMES,
    lent=(LentResource("slackwater.io/batch-cpu", 3, frozenset({"slackwater"})),),
    nodes={"a": "v1.37.2", "of-a-simulator": "kwok-0.8.0"},
    namespaces={"slackwater": "restricted", "slackwater-node": "privileged"},
    needed_secrets=SECRETS,
    secrets=frozenset(SECRETS),
)
KOORDLET = OtherProgram("Koordinator", "DaemonSet", "koordinator-system/koordlet", 3, everywhere=True)


def of_check(seen: ClusterSnapshot, check: str) -> list[Finding]:
    return [found for found in examine_cluster(seen) if found.check == check]


def test_a_cluster_that_is_well_has_only_lines_that_say_so() -> None:
    found = examine_cluster(WELL)
    assert {one.level for one in found} == {Level.OK}
    assert all(not one.advice for one in found)


@pytest.mark.parametrize(
    ("check", "level", "change", "said"),
    [
        ("cluster", Level.FAIL, {"trouble": "no answer"}, "no answer"),
        ("cluster", Level.FAIL, {"version": "v1.29.4+k3s1"}, "1.29"),
        ("nodes", Level.WARN, {"nodes": {}}, "no node"),
        ("nodes", Level.WARN, {"nodes": {"old": "v1.28.0"}}, "old"),
        ("rights", Level.FAIL, {"missing_install_rights": ("create deployments.apps",)}, "create deployments.apps"),
        ("rights", Level.FAIL, {"missing_service_rights": ("patch nodes/status",)}, "patch nodes/status"),
        ("storage", Level.WARN, {"storage_classes": {"slow": False}}, "slow"),
        ("kinds", Level.WARN, {"kinds": {"nodeqos": WELL.kinds["nodeqos"]}}, "missing: elasticquotas"),  # type: ignore[index]
        (
            "kinds",
            Level.WARN,
            {"kinds": {name: InstalledKind(name, ("v1alpha1",), name == "nodeqos") for name in KIND_NAMES}},
            "of another version: elasticquotas",
        ),
        ("writers", Level.FAIL, {"others": (KOORDLET,)}, "koordlet"),
        ("writers", Level.WARN, {"others": (replace(KOORDLET, everywhere=False),)}, "koordlet"),
        ("writers", Level.WARN, {"others": (replace(KOORDLET, kind="Deployment", name="a/koord-manager"),)}, "manager"),
        ("lent", Level.WARN, {"lent": (LentResource("kubernetes.io/batch-cpu", 2, frozenset({"koord"})),)}, "koord"),
        ("security", Level.FAIL, {"namespaces": {"slackwater-node": "restricted"}}, "restricted"),
        ("secrets", Level.WARN, {"secrets": frozenset(SECRETS) - {"nats"}}, "nats"),
        ("kinds", Level.WARN, {"kinds": None, "unread": {"kinds": "forbidden"}}, "not checked: forbidden"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(check: str, level: Level, change: dict[str, Any], said: str) -> None:
    seen = replace(WELL, **change)
    (found,) = [one for one in of_check(seen, check) if one.level is not Level.OK]
    assert (found.level, said in found.seen, bool(found.advice)) == (level, True, True)
    assert exit_needed(examine_cluster(seen)) is (level is Level.FAIL)


def test_versions_are_read_with_the_endings_of_distributions() -> None:
    assert version_of("v1.37.2") == (1, 37)
    assert version_of("v1.30+") == (1, 30)
    assert version_of("v1.29.4-gke.1043000") == (1, 29)
    assert version_of("unknown") == (0, 0)


def workload(name: str, container: str, image: str, **pod: Any) -> dict[str, Any]:
    containers = [{"name": container, "image": image}]
    return {
        "metadata": {"name": name, "namespace": "x"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers, **pod}}},
        "status": {"desiredNumberScheduled": 5},
    }


def test_other_programs_are_known_by_name_container_or_image() -> None:
    by_image = workload("node-agent", "main", "registry:5000/koordinator-sh/koordlet:v1.8@sha256:ab")
    selected = workload("crane-agent", "a", "b", nodeSelector={"pool": "x"})
    (found,) = other_programs("DaemonSet", [by_image, workload("nginx", "nginx", "nginx:1")])
    assert (found.product, found.name, found.pods, found.everywhere) == ("Koordinator", "x/node-agent", 5, True)
    assert not other_programs("DaemonSet", [selected])[0].everywhere
    assert other_programs("Deployment", [workload("d", "koord-manager", "")])[0].pods == 2


def test_lent_resources_are_found_with_their_writers() -> None:
    fields = {"f:status": {"f:capacity": {"f:kubernetes.io/batch-cpu": {}}}}
    node = {
        "metadata": {"name": "a", "managedFields": [{"manager": "koord-manager", "fieldsV1": fields}]},
        "status": {"capacity": {"cpu": "4", "kubernetes.io/batch-cpu": "1k"}},
    }
    assert lent_resources([node, {"metadata": {"name": "b"}, "status": {}}]) == (
        LentResource("kubernetes.io/batch-cpu", 1, frozenset({"koord-manager"})),
    )


def test_a_definition_is_current_with_what_the_server_adds_and_old_without_a_field() -> None:
    installed = [yaml.safe_load(yaml.safe_dump(definition(kind))) for kind in KINDS]
    installed[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-added"] = True
    del installed[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found, known = installed_kinds(installed)
    assert found is not None
    assert set(found) == set(known) == {kind.plural for kind in KINDS}
    assert [name for name, kind in found.items() if not kind.is_current] == [KINDS[1].plural]


@pytest.mark.parametrize(("name", "rights"), [("kubernetes", SERVICE_RIGHTS), ("agent", AGENT_RIGHTS)])
def test_rights_are_those_of_the_chart(name: str, rights: Sequence[ClusterRight]) -> None:
    granted = {
        (group, resource, verb)
        for one in with_adapter()
        if one["kind"] in ("ClusterRole", "Role") and one["metadata"]["name"] == f"slackwater-{name}"
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(right.group, right.resource, verb) for right in rights for verb in right.verbs} == granted
    assert all(right.why for right in (*rights, *INSTALL_RIGHTS))


def test_rights_to_install_are_those_of_what_is_installed() -> None:
    kinds = {(one["apiVersion"].rpartition("/")[0], one["kind"].lower()) for one in with_adapter()}
    plurals = {(group, kind.removesuffix("y") + "ies" if kind.endswith("y") else f"{kind}s") for group, kind in kinds}
    assert plurals | {("", "secrets")} == {(right.group, right.resource) for right in INSTALL_RIGHTS}


def test_secrets_that_the_page_creates_are_all_that_are_checked_and_mounted() -> None:
    page = (ROOT / "docs/how-to/install-on-kubernetes.md").read_text()
    (named,) = re.findall(r"for name in (postgres [a-z ]+); do", page)
    assert set(PLAIN_SECRETS) <= set(named.split())
    texts = json.dumps([*with_adapter(), *restore()])
    mounted = set(re.findall(r'"secret": {"secretName": "([a-z-]+)"', texts))
    assert mounted == set(named.split())


def own(name: str, namespace: str, component: str, **pod: Any) -> dict[str, Any]:
    made = workload(name, component, "registry/slackwater:1", **pod)
    labels = {"app.kubernetes.io/name": component, "app.kubernetes.io/part-of": "slackwater"}
    return {**made, "metadata": {"name": name, "namespace": namespace, "labels": labels}}


def test_its_own_descheduler_is_none_of_another_product() -> None:
    assert other_programs("Deployment", [own("descheduler", "slackwater", "descheduler")]) == ()
    (found,) = other_programs("Deployment", [workload("descheduler", "descheduler", "sigs/descheduler")])
    assert found.product == "descheduler"


def test_a_release_of_another_name_and_namespace_is_found_by_its_labels() -> None:
    volumes = [{"name": "secrets", "secret": {"secretName": "blue-console"}}, {"name": "tmp", "emptyDir": {}}]
    workloads = [
        own("blue-kubernetes", "lending", "kubernetes", serviceAccountName="blue-kubernetes"),
        own("blue-console", "lending", "console", volumes=volumes),
        own("blue-agent", "agents", "agent"),
        workload("nginx", "nginx", "nginx"),
    ]
    found = installed_release("lending", workloads)
    assert (found.account, found.prefix, found.agents_namespace) == ("blue-kubernetes", "blue-", "agents")
    assert found.secrets == ("blue-console",)
    nothing = installed_release("lending", [])
    assert (nothing.account, nothing.secrets) == ("kubernetes", PLAIN_SECRETS)


def test_without_a_cluster_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = CliRunner().invoke(app, ["doctor", "--kubernetes", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 3
    assert done.stdout.startswith("fail cluster")
    assert "--kubeconfig" in done.stdout
