"""What values of the chart change: names, secrets, rights by feature, network paths, ways to the console, metrics."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from deploy_files import parse
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, HelmRefused, call, rendered

from slackwater.cli.agent_tokens import AUDIENCE
from slackwater.cli.secret_files import AGENTS, readers
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS

pytestmark = pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)

Tree = dict[str, Any]
SERVERS = {"postgresql": {"external": {"host": "db.example"}}, "nats": {"external": {"url": "tls://nats.example:4222"}}}
OF_ALL = frozenset({"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
"""Kinds of which a cluster has one object."""


def release(values: Tree, name: str = "slackwater", namespace: str = "lending") -> list[Tree]:
    (objects,) = rendered(values, namespace=namespace, name=name)
    return [one for one in objects if one["kind"] not in OF_ALL]


def find(objects: list[Tree], kind: str, name: str) -> Tree:
    (found,) = (one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def template_of(one: Tree) -> Tree | None:
    spec = one.get("spec", {})
    spec = spec["jobTemplate"]["spec"] if one["kind"] == "CronJob" else spec
    template: Tree | None = spec.get("template")
    return template


def variables(one: Tree) -> dict[str, str]:
    template = template_of(one)
    assert template is not None
    (container,) = template["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


@pytest.mark.parametrize(
    ("values", "name", "prefix"),
    [
        ({}, "slackwater", "slackwater-"),
        ({}, "blue", "blue-slackwater-"),
        ({"nameOverride": "slack"}, "blue", "blue-slack-"),
        ({"fullnameOverride": "sw"}, "blue", "sw-"),
    ],
)
def test_names_are_those_of_the_release_and_every_reference_is_to_one(values: Tree, name: str, prefix: str) -> None:
    cluster = {"kubernetes": {"enabled": True, "documents": True}}
    objects = release({**values, **cluster}, name)
    assert [one["metadata"]["name"] for one in objects if not one["metadata"]["name"].startswith(prefix)] == []
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    made = {("Secret", prefix + reader) for reader in (*readers(), AGENTS)}
    for one in objects:
        template = template_of(one) or {"spec": one.get("spec", {})}
        spec = template["spec"]
        asked = {("ServiceAccount", spec["serviceAccountName"])} if "serviceAccountName" in spec else set()
        for volume in spec.get("volumes", []):
            if "secret" in volume:
                asked.add(("Secret", volume["secret"]["secretName"]))
            projected = volume.get("projected", {"sources": []})["sources"]
            asked |= {("Secret", source["secret"]["name"]) for source in projected if "secret" in source}
            if "persistentVolumeClaim" in volume:
                asked.add(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]))
        asked |= {("ServiceAccount", subject["name"]) for subject in one.get("subjects", [])}
        asked |= {(one["roleRef"]["kind"], one["roleRef"]["name"])} if "roleRef" in one else set()
        assert asked <= names | made, (one["kind"], one["metadata"]["name"])
    labels = {"app.kubernetes.io/instance": name}
    for one in objects:
        template = template_of(one)
        if template is not None:
            assert labels.items() <= template["metadata"]["labels"].items()
        for selector in selectors(one.get("spec", {})):
            assert labels.items() <= selector.items() or set(selector) & OTHERS, one["metadata"]["name"]


OTHERS = {"kubernetes.io/metadata.name", "slackwater.io/scrapes", "k8s-app"}
"""Labels of what is not of the release."""


ALL = {
    "kubernetes": {"enabled": True, "documents": True},
    "nats": {"replicas": 3},
    "agent": {"metrics": {"enabled": True}},
    "metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
    "ingress": {"enabled": True, "host": "lending.example"},
}
TEXTS = frozenset(
    {"name", "namespace", "value", "serviceName", "serviceAccountName", "secretName", "host", "claimName"}
)
OF_TEXTS = frozenset({"labels", "matchLabels", "annotations", "nodeSelector", "args", "command"})


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("1", "2"), ("0x1f", "1e3"), ("true", "null"), ("on", "y"), ("2026-11-30", "n" * 63), ("r" * 53, "1-1")],
)
def test_names_of_releases_and_namespaces_are_texts_whatever_they_look_like(name: str, namespace: str) -> None:
    objects = release(ALL, name, namespace)
    assert {one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in objects} == {name}
    assert {one["metadata"].get("namespace", namespace) for one in objects} == {namespace}
    assert [path for one in objects for path in _no_texts(one, one["kind"])] == []
    services = [one["metadata"]["name"] for one in objects if one["kind"] == "Service"]
    assert [service for service in services if not re.fullmatch(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", service)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (({}, f"{'team-' * 9}blue"), ({}, f"{'team-' * 9}green")),
        (({}, f"slackwater-{'x' * 40}-1"), ({}, f"slackwater-{'x' * 40}-2")),
        (({"nameOverride": f"{'n' * 39}1"}, "team"), ({"nameOverride": f"{'n' * 39}2"}, "team")),
    ],
)
def test_long_names_that_begin_alike_are_those_of_different_objects(
    one: tuple[Tree, str], other: tuple[Tree, str]
) -> None:
    names = [
        {(made["kind"], made["metadata"]["name"]) for made in release({**ALL, **values}, name)}
        for values, name in (one, other)
    ]
    common = {(kind, name) for kind, name in names[0] & names[1] if kind != "CustomResourceDefinition"}
    assert common == set()
    assert {len(name) <= 63 for kind, name in names[0] if kind == "Service"} == {True}


def _no_texts(tree: Any, path: str, is_text: bool = False) -> list[str]:
    if isinstance(tree, dict):
        parts = ((key, value, is_text or key in TEXTS) for key, value in tree.items())
        return [
            found
            for key, value, is_meant in parts
            for found in _no_texts(
                value, f"{path}.{key}", is_meant if not isinstance(value, dict | list) else key in OF_TEXTS
            )
        ]
    if isinstance(tree, list):
        return [found for item in tree for found in _no_texts(item, path, is_text)]
    return [f"{path}: {tree!r}"] if is_text and not isinstance(tree, str) else []


def selectors(tree: Any) -> list[Tree]:
    if isinstance(tree, dict):
        own = [tree["matchLabels"]] if "matchLabels" in tree else []
        return own + [found for value in tree.values() for found in selectors(value)]
    return [found for item in tree for found in selectors(item)] if isinstance(tree, list) else []


def test_the_hook_makes_every_secret_before_anything_else() -> None:
    objects = release({}, "blue")
    role = find(objects, "Role", "blue-slackwater-secrets-hook")
    (rule,) = role["rules"]
    assert sorted(rule["resourceNames"]) == sorted(f"blue-slackwater-{reader}" for reader in (*readers(), AGENTS))
    assert rule["verbs"] == ["get", "create", "patch"]
    hooks = [one for one in objects if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    before = [one for one in hooks if one["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"]
    kinds = {"ServiceAccount", "Role", "RoleBinding", "Job"}
    assert {one["kind"] for one in before} == kinds
    order = {one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in before}
    assert all(order[kind] < order["Job"] < 0 for kind in kinds - {"Job"})
    assert all("hook-succeeded" in one["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for one in before)
    for kind in ("Job", "CronJob"):
        one = find(objects, kind, "blue-slackwater-secrets" + ("-hook" if kind == "Job" else ""))
        template = template_of(one)
        assert template is not None
        parse(template["spec"]["containers"][0]["args"])
    text = json.dumps(objects)
    assert not [one for one in objects if one["kind"] == "Secret"], "no secret is in the release"
    assert "dsn=" not in text


def test_the_token_of_its_pod_proves_the_node_of_an_agent() -> None:
    objects = release({"agent": {"namespace": "agents"}}, "blue")
    agent = template_of(find(objects, "DaemonSet", "blue-slackwater-agent"))
    assert agent is not None
    (volume,) = [one for one in agent["spec"]["volumes"] if one["name"] == "credentials"]
    secret, token = volume["projected"]["sources"]
    assert secret == {"secret": {"name": "blue-slackwater-agent-access"}}
    assert token["serviceAccountToken"]["audience"] == AUDIENCE
    environment = {one["name"]: one.get("value") for one in agent["spec"]["containers"][0]["env"]}
    assert environment["SLACKWATER_NATS_IDENTITY_FILE"] == "/etc/slackwater/agent/identity"
    access = template_of(find(objects, "Deployment", "blue-slackwater-access"))
    assert access is not None
    (container,) = access["spec"]["containers"]
    assert container["args"] == ["cluster-access", "--account=system:serviceaccount:agents:blue-slackwater-agent"]
    assert agent["spec"]["serviceAccountName"] == "blue-slackwater-agent"
    parse(["cluster-access", "--nats", "tls://h", *container["args"][1:]])
    role = find(objects, "ClusterRole", "blue-slackwater-access")
    assert role["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ]


def test_where_each_node_has_an_enrolment_nothing_reviews_tokens() -> None:
    objects = release({"agent": {"access": {"hostPath": "/etc/slackwater/agent"}}})
    assert not [one for one in objects if one["metadata"]["name"].startswith("slackwater-access")]
    agent = template_of(find(objects, "DaemonSet", "slackwater-agent"))
    assert agent is not None
    assert not [one for one in agent["spec"]["containers"][0]["env"] if "IDENTITY" in one["name"]]


def test_agents_in_a_namespace_of_their_own_have_their_secret_there() -> None:
    objects = release({"agent": {"namespace": "agents"}})
    roles = [one for one in objects if (one["kind"], one["metadata"]["name"]) == ("Role", "slackwater-secrets")]
    assert {one["metadata"]["namespace"]: one["rules"][0]["resourceNames"][-1] for one in roles} == {
        "lending": "slackwater-access",
        "agents": "slackwater-agent-access",
    }
    policies = {
        one["metadata"]["namespace"]
        for one in objects
        if (one["kind"], one["metadata"]["name"]) == ("NetworkPolicy", "slackwater-default-deny")
    }
    assert policies == {"lending", "agents"}


def test_one_value_moves_every_image_to_a_registry() -> None:
    objects = release({"image": {"registry": "mirror.example:5000"}})
    images = set()
    for one in objects:
        template = template_of(one) or {"spec": one.get("spec", {})}
        for container in [*template["spec"].get("containers", []), *template["spec"].get("initContainers", [])]:
            images.add(container["image"].rpartition(":")[0])
    names = ("slackwater/slackwater", "slackwater/slackwater-agent", "library/postgres", "library/nats")
    assert images == {f"mirror.example:5000/{name}" for name in names}
    assert all(image.startswith("docker.io/") for image in _images(release({}))), "CRI-O resolves no short names"


def _images(objects: list[Tree]) -> set[str]:
    templates = [template_of(one) for one in objects]
    return {one["spec"]["containers"][0]["image"] for one in templates if one is not None}


def test_two_values_replace_the_servers() -> None:
    objects = release(SERVERS)
    assert not [one for one in objects if one["kind"] == "StatefulSet"]
    job = template_of(find(objects, "Job", "slackwater-secrets-hook"))
    assert job is not None
    (volume,) = (one for one in job["spec"]["volumes"] if one["name"] == "postgresql")
    assert volume["secret"]["secretName"] == "postgresql-admin"
    assert (
        variables(find(objects, "Deployment", "slackwater-quota"))["SLACKWATER_NATS_URL"] == "tls://nats.example:4222"
    )


def test_notes_name_what_is_there() -> None:
    (answer,) = call("render", chart=str(CHART), values=[{}], namespace="lending", name="blue", upgrade=False)
    notes = answer["slackwater/templates/NOTES.txt"]
    objects = release({}, "blue")
    for kind, name in re.findall(r"(deployment|service)/(\S+)", notes):
        find(objects, kind.capitalize(), name)
    assert "get secret blue-slackwater-tokens" in notes
    assert "kubernetes.enabled=true" in notes
    assert "observe" in notes


def test_log_level_and_mode_are_values() -> None:
    objects = release({"logLevel": "debug"})
    assert variables(find(objects, "Deployment", "slackwater-quota"))["SLACKWATER_LOG_LEVEL"] == "debug"
    assert variables(find(objects, "Deployment", "slackwater-ensurance"))["SLACKWATER_ENSURANCE_MODE"] == "observe"


def test_documents_make_the_cluster_the_source_of_every_service_that_owns_kinds() -> None:
    objects = release({"kubernetes": {"enabled": True, "documents": True}})
    sources = {
        one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        for one in objects
        if one["kind"] == "Deployment" and variables(one).get("SLACKWATER_RESOURCES_SOURCE") == "kubernetes"
    }
    assert sources == {kind.service for kind, _ in DOCUMENT_KINDS.values()}


def rights(values: Tree) -> set[tuple[str, str]]:
    objects = release({"kubernetes": {"enabled": True, **values}})
    found = set()
    for kind in ("ClusterRole", "Role"):
        for one in objects:
            if (one["kind"], one["metadata"]["name"]) == (kind, "slackwater-kubernetes"):
                for rule in one["rules"] or []:
                    found |= {(resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
    return found


@pytest.mark.parametrize(
    ("off", "right"),
    [
        ({"offers": False}, ("nodes/status", "patch")),
        ({"evictions": "off"}, ("pods/eviction", "create")),
        ({"cordons": "off"}, ("nodes", "patch")),
        ({"profiles": "off"}, ("mutatingadmissionpolicies", "create")),
        ({"profiles": "off"}, ("mutatingwebhookconfigurations", "patch")),
        ({"profiles": "off"}, ("secrets", "patch")),
        ({"documents": False}, ("reservations/status", "patch")),
        ({"documents": False}, ("nodeqos", "watch")),
    ],
)
def test_a_feature_that_is_off_has_no_right(off: Tree, right: tuple[str, str]) -> None:
    assert right in rights({"documents": True})
    assert right not in rights({"documents": True, **off})
    if "documents" not in off:
        assert right in rights({**off, "withdraw": True}), "what it wrote can be withdrawn"


def test_what_is_written_by_name_is_restricted_to_the_name() -> None:
    objects = release({"kubernetes": {"enabled": True}})
    for rule in find(objects, "ClusterRole", "slackwater-kubernetes")["rules"]:
        if rule["apiGroups"] == ["admissionregistration.k8s.io"] and set(rule["verbs"]) - {"list", "watch"}:
            assert rule["resourceNames"] == ["profiles.slackwater.io"]


def test_roles_of_documents_do_not_reach_edit_and_admin() -> None:
    objects = release({})
    aggregated = {
        one["metadata"]["name"]: [label for label in one["metadata"]["labels"] if "aggregate-to" in label]
        for one in objects
        if one["kind"] == "ClusterRole" and one["metadata"]["name"].endswith(("viewer", "operator", "admin"))
    }
    view = ["rbac.authorization.k8s.io/aggregate-to-view"]
    assert aggregated == {"slackwater-viewer": view, "slackwater-operator": [], "slackwater-admin": []}


def test_network_paths_that_clusters_need_are_values() -> None:
    rules: Tree = {
        "dnsCidrs": ["10.96.0.10/32"],
        "apiServerPorts": [8443],
        "apiServerCidrs": ["10.0.0.1/32"],
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}],
        "extraIngress": [{"from": [{"podSelector": {}}]}],
    }
    objects = release({"networkPolicy": rules})
    agent = find(objects, "NetworkPolicy", "slackwater-agent")["spec"]["egress"]
    assert {"ipBlock": {"cidr": "10.96.0.10/32"}} in agent[1]["to"]
    to_server = {"ports": [{"port": 8443, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}
    assert agent[2] == to_server
    assert find(objects, "NetworkPolicy", "slackwater-secrets")["spec"]["egress"] == [to_server]
    extra = find(objects, "NetworkPolicy", "slackwater-extra")["spec"]
    assert (extra["egress"], extra["ingress"]) == (rules["extraEgress"], rules["extraIngress"])
    local = find(release({}), "NetworkPolicy", "slackwater-dns")["spec"]["egress"][0]["to"]
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in local, "NodeLocal DNS"


def test_the_console_is_reached_by_ingress_or_route() -> None:
    given: Tree = {
        "ingress": {"enabled": True, "className": "nginx", "host": "lend.example", "tlsSecret": "lend-tls"},
        "httpRoute": {"enabled": True, "hostnames": ["lend.example"], "parentRefs": [{"name": "gate"}]},
    }
    objects = release(given)
    ingress = find(objects, "Ingress", "slackwater-console")["spec"]
    (rule,) = ingress["rules"]
    assert (rule["host"], ingress["tls"][0]["secretName"]) == ("lend.example", "lend-tls")
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "slackwater-console", "port": {"name": "http"}}
    route = find(objects, "HTTPRoute", "slackwater-console")["spec"]
    assert route["rules"] == [{"backendRefs": [{"name": "slackwater-console", "port": 80}]}]
    service = find(objects, "Service", "slackwater-console")["spec"]
    assert {"http": 80}.items() <= {port["name"]: port["port"] for port in service["ports"]}.items()


def test_the_brokers_certificate_is_of_an_issuer() -> None:
    given: Tree = {"certManager": {"enabled": True, "issuerRef": {"name": "of-site"}, "caSecret": {"name": "site-ca"}}}
    objects = release(given, "blue")
    certificate = find(objects, "Certificate", "blue-slackwater-nats-tls")["spec"]
    assert certificate["issuerRef"] == {"group": "cert-manager.io", "kind": "Issuer", "name": "of-site"}
    url = variables(find(objects, "Deployment", "blue-slackwater-quota"))["SLACKWATER_NATS_URL"]
    assert url.removeprefix("tls://").partition(":")[0] in certificate["dnsNames"]
    broker = template_of(find(objects, "StatefulSet", "blue-slackwater-nats"))
    assert broker is not None
    (config,) = (volume for volume in broker["spec"]["volumes"] if volume["name"] == "config")
    files = [
        (one["secret"]["name"], item["path"])
        for one in config["projected"]["sources"]
        for item in one["secret"]["items"]
    ]
    assert ("blue-slackwater-nats", "access.conf") in files
    assert (certificate["secretName"], "tls.key") in files
    job = template_of(find(objects, "Job", "blue-slackwater-secrets-hook"))
    assert job is not None
    assert "--nats-ca=/run/secrets/nats-ca/ca.crt" in job["spec"]["containers"][0]["args"]
    (authority,) = (volume for volume in job["spec"]["volumes"] if volume["name"] == "nats-ca")
    assert authority["secret"]["secretName"] == "site-ca"
    with pytest.raises(HelmRefused, match=r"certManager\.caSecret\.name"):
        release({"certManager": {"enabled": True}})


def test_agents_are_scraped_with_a_token_through_their_own_path() -> None:
    objects = release({"agent": {"metrics": {"enabled": True}}, "metrics": {"podMonitor": {"enabled": True}}})
    agent = find(objects, "DaemonSet", "slackwater-agent")
    assert variables(agent)["SLACKWATER_AGENT_METRICS_TOKENS_FILE"] == "/etc/slackwater/agent/tokens"
    (port,) = agent["spec"]["template"]["spec"]["containers"][0]["ports"]
    monitor = find(objects, "PodMonitor", "slackwater-agent")["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] == port["name"]
    assert endpoint["authorization"]["credentials"] == {"name": "slackwater-tokens", "key": "viewer"}
    (rule,) = find(objects, "NetworkPolicy", "slackwater-agent-metrics")["spec"]["ingress"]
    assert rule["ports"] == [{"port": port["containerPort"], "protocol": "TCP"}]
    assert not [one for one in release({}) if one["metadata"]["name"] == "slackwater-agent-metrics"]


def test_three_brokers_are_named_spread_and_reach_each_other() -> None:
    objects = release({"nats": {"replicas": 3}})
    hosts = [f"slackwater-nats-{number}.slackwater-nats-brokers.lending.svc" for number in range(3)]
    urls = ",".join(f"tls://{host}:4222" for host in hosts)
    assert variables(find(objects, "Deployment", "slackwater-console"))["SLACKWATER_NATS_URL"] == urls
    broker = find(objects, "StatefulSet", "slackwater-nats")
    assert broker["spec"]["serviceName"] == "slackwater-nats-brokers"
    assert broker["spec"]["podManagementPolicy"] == "Parallel"
    (container,) = broker["spec"]["template"]["spec"]["containers"]
    routes = ",".join(f"nats-route://{host}:6222" for host in hosts)
    assert container["args"][container["args"].index("--routes") + 1] == routes
    service = find(objects, "Service", "slackwater-nats-brokers")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    budget = find(objects, "PodDisruptionBudget", "slackwater-nats")
    assert budget["spec"]["minAvailable"] == 2
    pods = broker["spec"]["template"]["metadata"]["labels"]
    for selector in (service["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= pods.items()
    (spread,) = broker["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == broker["spec"]["selector"]
    policy = find(objects, "NetworkPolicy", "slackwater-nats-routes")
    for way in ("ingress", "egress"):
        assert policy["spec"][way][0]["ports"] == [{"port": 6222, "protocol": "TCP"}]
    made = json.dumps(find(objects, "CronJob", "slackwater-secrets"))
    assert all(f"--nats-host={host}" in made for host in hosts)


def test_with_an_external_broker_there_are_no_three() -> None:
    objects = release({"nats": {"replicas": 3, **SERVERS["nats"]}})
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert not {name for kind, name in names if kind == "PodDisruptionBudget" and "nats" in name}
    assert not {name for _, name in names if name.endswith(("-nats-brokers", "-nats-routes"))}
