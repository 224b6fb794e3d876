"""The manifests are held to the code and to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_files import ROOT, as_job, documents, files_below, parse
from tests.support.api_server import MemoryApiServer
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.agent.adapters.kubepods.driver import KubernetesDriver
from slackwater.agent.service import build_in_cluster
from slackwater.agent.settings import AgentSettings
from slackwater.apiserver.node_pods import NODE_PODS
from slackwater.apiserver.records import NODES
from slackwater.cli.composition import SHARED
from slackwater.runtime.platform import Platform
from slackwater.runtime.settings import USUAL_PORT, USUAL_RPC_PORT

ALL = list(documents())
WORKLOADS = [
    as_job(one)
    for _, one in [*ALL, *documents("by-hand")]
    if one["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob")
]
SERVICES = [part.name for part in SHARED]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(workload)["containers"]
    assert isinstance(found, dict)
    return found


def ours() -> list[dict[str, Any]]:
    return [one for one in WORKLOADS if container(one)["image"].startswith(("slackwater:", "slackwater-agent:"))]


def name_of(one: dict[str, Any]) -> str:
    return str(one["metadata"]["name"])


def find(kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for _, one in ALL if one["kind"] == kind and name_of(one) == name]
    return found


def environment(workload: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container(workload).get("env", [])}


def test_kustomization_names_every_file() -> None:
    files = {name for name, _ in ALL} - {"kustomization.yaml"}
    kustomization = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == sorted(files)


def test_every_service_is_a_deployment_of_two_and_the_agent_a_daemonset() -> None:
    assert {name_of(one) for one in WORKLOADS if one["kind"] == "Deployment"} == set(SERVICES)
    assert [name_of(one) for one in WORKLOADS if one["kind"] == "DaemonSet"] == ["agent"]
    assert all(find("Deployment", name)["spec"]["replicas"] >= 2 for name in SERVICES)


@pytest.mark.parametrize("workload", ours(), ids=name_of)
def test_its_command_is_one_that_the_cli_takes_and_its_variables_are_read(
    workload: dict[str, Any], variables: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {name: value for name, value in environment(workload).items() if name.startswith("SLACKWATER_")}
    assert set(own) <= variables
    for variable, value in own.items():
        monkeypatch.setenv(variable, value)
    one = container(workload)
    verb = ["agent"] if one["image"].startswith("slackwater-agent:") else []  # its entry point takes the verb's options
    parse([*verb, *one["args"]])


@pytest.mark.parametrize("name", SERVICES)
def test_probes_ask_what_the_service_answers(name: str) -> None:
    one = container(find("Deployment", name))
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert ports == {"http": USUAL_PORT} | ({"grpc": USUAL_RPC_PORT} if name == "console" else {})
    assert one["args"] == ["run", name, "--port", str(USUAL_PORT)]
    asked = {probe: one[probe]["httpGet"]["path"] for probe in PROBES}
    assert asked == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {one[probe]["httpGet"]["port"] for probe in PROBES} == {"http"}
    scrape = find("Deployment", name)["spec"]["template"]["metadata"]["annotations"]
    assert (scrape["prometheus.io/port"], scrape["prometheus.io/path"]) == (str(USUAL_PORT), "/metrics")


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_selectors_labels_and_disruption_budgets_meet(workload: dict[str, Any]) -> None:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    if workload["kind"] != "Job":
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    if workload["kind"] == "Deployment":
        budget = find("PodDisruptionBudget", name_of(workload))["spec"]
        assert budget["minAvailable"] < workload["spec"]["replicas"], "a drain must be possible"
        assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_services_select_pods_and_ports_that_exist() -> None:
    for _, one in ALL:
        if one["kind"] != "Service":
            continue
        chosen = [
            w
            for w in WORKLOADS
            if one["spec"]["selector"].items() <= w["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert len(chosen) == 1, name_of(one)
        assert chosen[0]["metadata"]["namespace"] == one["metadata"]["namespace"]
        names = {port["name"] for port in container(chosen[0])["ports"]}
        assert {port["targetPort"] for port in one["spec"]["ports"]} <= names


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_least_rights(workload: dict[str, Any]) -> None:
    spec, one = pod(workload), container(workload)
    security = one["securityContext"]
    assert spec["automountServiceAccountToken"] is (name_of(workload) == "agent")
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"]["drop"] == ["ALL"]
    assert {"cpu", "memory"} <= set(one["resources"]["requests"])
    assert "memory" in one["resources"]["limits"]
    if name_of(workload) == "agent":
        assert security["privileged"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
        paths = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
        assert paths == ["/sys/fs/cgroup", "/var/lib/slackwater", "/etc/slackwater/agent"]
        assert workload["metadata"]["namespace"] == "slackwater-node"
        return
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "add" not in security["capabilities"]
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert workload["metadata"]["namespace"] == "slackwater"


def test_the_agent_alone_has_rights_at_the_api_server_and_only_reads_pods_and_nodes() -> None:
    """tests/kubernetes runs it with that on pods, and without each verb of it."""
    kinds = {one["kind"] for _, one in ALL}
    assert not kinds & {"Role", "RoleBinding"}
    assert all(one["automountServiceAccountToken"] is False for _, one in ALL if one["kind"] == "ServiceAccount")
    role, binding = find("ClusterRole", "slackwater-agent"), find("ClusterRoleBinding", "slackwater-agent")
    assert role["rules"] == [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list", "watch"]}
        for kind in (NODE_PODS, NODES)
    ]
    assert binding["roleRef"]["name"] == name_of(role)
    account = find("ServiceAccount", "agent")["metadata"]
    assert [(one["name"], one["namespace"]) for one in binding["subjects"]] == [(account["name"], account["namespace"])]
    assert pod(find("DaemonSet", "agent"))["serviceAccountName"] == account["name"]


def test_the_agent_is_built_with_the_driver_for_kubernetes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its own environment and options, with what a kubelet would put into them."""
    fields = {"spec.nodeName": "worker-1", "metadata.uid": "0000-1111"}
    for item in container(find("DaemonSet", "agent"))["env"]:
        reference = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        monkeypatch.setenv(item["name"], fields[reference] if reference else item["value"])
    platform = Platform(MemoryBus(), FakeClock(), lambda _: pytest.fail("no database"), tmp_path)
    agent = build_in_cluster(AgentSettings(node=fields["spec.nodeName"]), platform, MemoryApiServer())
    assert isinstance(agent.driver, KubernetesDriver)
    assert (agent.settings.driver, agent.driver.own_uid, agent.driver.source.node) == (
        "kubernetes",
        "0000-1111",
        "worker-1",
    )


def test_the_secrets_that_pods_mount_are_folders_that_the_command_writes(secrets: Any) -> None:
    for workload in WORKLOADS:
        for volume in pod(workload)["volumes"]:
            if "secret" not in volume:
                continue
            folder = secrets / volume["secret"]["secretName"]
            assert folder.is_dir(), volume
            (mount,) = [m for m in container(workload)["volumeMounts"] if m["name"] == volume["name"]]
            for file in files_below(mount["mountPath"], environment(workload)):
                assert (folder / file).is_file(), (name_of(workload), file)


def test_the_agent_s_files_are_those_of_its_own_node(secrets: Any) -> None:
    agent = find("DaemonSet", "agent")
    named = files_below("/etc/slackwater/agent", environment(agent))
    assert named == {path.name for path in (secrets / "agents" / "this-machine").iterdir()}
    assert not any("secret" in volume for volume in pod(agent)["volumes"]), "every node would see the secrets of all"


def test_what_pods_may_write_is_where_they_write() -> None:
    for workload in ours():
        mounts = {mount["mountPath"] for mount in container(workload)["volumeMounts"]}
        assert {"/var/lib/slackwater", "/tmp"} <= mounts, name_of(workload)


def test_network_policies_deny_by_default_and_open_only_what_exists() -> None:
    policies = [one for _, one in ALL if one["kind"] == "NetworkPolicy"]
    for namespace in ("slackwater", "slackwater-node"):
        (deny,) = [p for p in policies if p["metadata"] == {"name": "default-deny", "namespace": namespace}]
        assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    listening = {port["containerPort"] for one in WORKLOADS for port in container(one).get("ports", [])}
    known = {name_of(one) for one in WORKLOADS}
    for policy in policies:
        for rule in [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]:
            outside = {53, 443, 6443} if policy["metadata"]["namespace"] == "slackwater-node" else {53}
            assert {port["port"] for port in rule["ports"]} <= listening | outside, name_of(policy)
            for peer in [*rule.get("from", []), *rule.get("to", [])]:
                assert names_in(peer.get("podSelector", {})) <= known, name_of(policy)
        assert names_in(policy["spec"]["podSelector"]) <= known


def names_in(selector: dict[str, Any]) -> set[str]:
    found = {value for key, value in selector.get("matchLabels", {}).items() if key == "app.kubernetes.io/name"}
    for expression in selector.get("matchExpressions", []):
        if expression["key"] == "app.kubernetes.io/name":
            found |= set(expression["values"])
    return found


def test_no_secret_is_written_down() -> None:
    assert not [name for name, one in ALL if one["kind"] == "Secret"]
    for workload in WORKLOADS:
        for variable, value in environment(workload).items():
            secret = any(word in variable for word in ("PASSWORD", "TOKEN", "DSN"))
            assert not secret or (variable.endswith("_FILE") and value.startswith("/")), (name_of(workload), variable)


def test_a_new_version_is_migrated_before_it_rolls_and_the_label_in_the_docs_selects_the_job_alone() -> None:
    text = (ROOT / "deploy" / "kubernetes" / "README.md").read_text()
    steps = ["delete job/migrate", "-l app.kubernetes.io/name=migrate", "wait --for=condition=complete job/migrate"]
    places = [text.index(step, text.index("A new version:")) for step in steps]
    assert places == sorted(places)
    assert text.rindex("kubectl apply -k deploy/kubernetes\n") > places[-1]
    labelled = [
        one for _, one in ALL if one.get("metadata", {}).get("labels", {}).get("app.kubernetes.io/name") == "migrate"
    ]
    assert [one["kind"] for one in labelled] == ["Job"]


def test_every_claim_without_a_storage_class_is_named_in_the_docs() -> None:
    text = (ROOT / "deploy" / "kubernetes" / "README.md").read_text()
    for file, one in ALL:
        claims = (
            [one] if one["kind"] == "PersistentVolumeClaim" else one.get("spec", {}).get("volumeClaimTemplates", [])
        )
        if any("storageClassName" not in claim["spec"] for claim in claims):
            name = Path(file).name
            assert f"`{name}`" in text.partition("StorageClass")[2].partition("Pending")[0], name
