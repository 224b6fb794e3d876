"""The Helm chart, rendered by Helm: the manifests with its default values, and what other values change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from deploy_files import ROOT
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, call, rendered

pytestmark = pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)

Tree = dict[str, Any]
MANIFESTS = ROOT / "deploy" / "kubernetes"
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")
ADDED = {
    "helm.sh/resource-policy",
    "helm.sh/hook",
    "helm.sh/hook-weight",
    "helm.sh/hook-delete-policy",
}
"""Annotations of the chart that the manifests have not."""
EXTERNAL = {
    "postgresql": {"enabled": False, "external": {"port": 6432, "cidrs": ["10.1.0.0/16"]}},
    "nats": {"enabled": False, "external": {"url": "tls://nats.example:4333", "port": 4333}},
}
OFF = {
    "networkPolicy": {"enabled": False},
    "crds": {"install": False},
    "rbac": {"create": False},
    "agent": {"enabled": False},
    "backup": {"enabled": False},
    "services": {"quota": {"enabled": False}, "console": {"podDisruptionBudget": {"enabled": False}}},
}
TUNED = {
    "image": {"registry": "registry.example:5000", "repository": "slack/water", "digest": "sha256:0a1b"},
    "imagePullSecrets": [{"name": "pull"}],
    "common": {
        "labels": {"team": "a"},
        "podLabels": {"pod-label": "x"},
        "podAnnotations": {"pod-annotation": "y"},
        "nodeSelector": {"disk": "ssd"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "podSecurityContext": {"runAsNonRoot": True},
    },
    "services": {
        "console": {
            "replicas": 3,
            "secretName": "of-console",
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "extraArgs": ["--port", "8460"],
            "extraEnv": [{"name": "SLACKWATER_LOG_LEVEL", "value": "debug"}],
        }
    },
    "postgresql": {"storage": {"size": "1Gi", "className": "fast"}},
}
MONITORED = {
    "metrics": {
        "serviceMonitor": {"enabled": True, "additionalLabels": {"release": "p"}},
        "prometheusRule": {"enabled": True},
    },
    "grafana": {"dashboards": {"enabled": True}},
}
CLUSTER = {"kubernetes": {"enabled": True, "documents": True}}


@pytest.fixture(scope="module")
def releases() -> Mapping[str, list[Tree]]:
    """Objects by the name of the values, rendered in one process."""
    values = {
        "default": {},
        "external": EXTERNAL,
        "off": OFF,
        "tuned": TUNED,
        "monitored": MONITORED,
        "cluster": CLUSTER,
    }
    return dict(zip(values, rendered(*values.values()), strict=True))


def manifests(folder: str = "") -> Iterator[Tree]:
    for name in yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["resources"]:
        if name.endswith(".yaml"):
            yield from yaml.safe_load_all((MANIFESTS / folder / name).read_text())
        elif not name.startswith(".."):
            yield from manifests(name)


def key(one: Tree) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def without_chart(tree: Any) -> Any:
    """An object without what the chart adds to every one: its labels, its annotations, the version of the image."""
    if isinstance(tree, list):
        return [without_chart(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    found = {}
    for name, value in tree.items():
        if name in (*OF_HELM, *ADDED, "imagePullPolicy"):
            continue
        if name == "image" and isinstance(value, str) and value.startswith("slackwater"):
            found[name] = value.partition(":")[0]
        else:
            found[name] = without_chart(value)
    return {name: value for name, value in found.items() if value != {} or name not in ("labels", "annotations")}


def compared(objects: Iterator[Tree] | list[Tree]) -> dict[tuple[str, str, str], Any]:
    found = {key(one): without_chart(one) for one in objects}
    found.pop(("Namespace", "", "slackwater"), None)  # that of a release is Helm's
    return found


def test_default_values_are_the_manifests(releases: Mapping[str, list[Tree]]) -> None:
    wanted, made = compared(manifests()), compared(releases["default"])
    assert made.keys() == wanted.keys()
    for name, one in wanted.items():
        assert made[name] == one, name


def test_the_adapter_and_documents_are_those_of_their_folders(releases: Mapping[str, list[Tree]]) -> None:
    added = compared([one for folder in ("adapter", "documents") for one in manifests(folder)])
    patches = yaml.safe_load((MANIFESTS / "documents" / "kustomization.yaml").read_text())["patches"]
    environment = [operation["value"] for patch in patches for operation in yaml.safe_load(patch["patch"])]
    container = added["Deployment", "slackwater", "kubernetes"]["spec"]["template"]["spec"]["containers"][0]
    container["env"] += environment
    made = compared(releases["cluster"])
    assert {name: made.get(name) for name in added} == added
    assert made.keys() - added.keys() == compared(releases["default"]).keys()


def test_every_object_has_the_labels_of_the_chart(releases: Mapping[str, list[Tree]]) -> None:
    for name, objects in releases.items():
        missing = [key(one) for one in objects if not set(OF_HELM) <= set(one["metadata"].get("labels", {}))]
        assert missing == [], name


def test_helm_has_nothing_to_say_against_it() -> None:
    report = call("lint", chart=str(CHART), values=TUNED)
    assert (report["errors"], [one for one in report["messages"] if one["severity"] > 1]) == ([], [])


def test_values_are_checked_and_the_wrong_one_is_named() -> None:
    wrong = {
        "replicaz": {"services": {"console": {"replicaz": 2}}},
        "replicas": {"services": {"console": {"replicas": "two"}}},
        "pullPolicy": {"image": {"pullPolicy": "sometimes"}},
        "size": {"postgresql": {"storage": {"size": "much"}}},
        "url": {"nats": {"external": {"url": "http://x"}}},
    }
    found = call("validate", chart=str(CHART), values=[*wrong.values(), TUNED, EXTERNAL, OFF, MONITORED, CLUSTER])
    for field, problem in zip(wrong, found, strict=False):
        assert field in problem
    assert found[len(wrong) :] == [""] * 5


def test_migration_runs_before_services_roll(releases: Mapping[str, list[Tree]]) -> None:
    (upgraded,) = rendered({}, upgrade=True)

    def hook(objects: list[Tree]) -> tuple[str, str]:
        (job,) = (one for one in objects if key(one)[::2] == ("Job", "migrate"))
        annotations = job["metadata"]["annotations"]
        return annotations.get("helm.sh/hook", ""), annotations.get("helm.sh/hook-delete-policy", "")

    before = "pre-install,pre-upgrade", "before-hook-creation"
    assert hook(releases["default"]) == ("", ""), "PostgreSQL of the release is not there before"
    assert (hook(upgraded), hook(releases["external"])) == (before, before)


def test_external_servers_are_reached_and_not_installed(releases: Mapping[str, list[Tree]]) -> None:
    objects = releases["external"]
    assert not [one for one in objects if one["kind"] == "StatefulSet"]
    assert not [one for one in objects if one["metadata"]["name"] in ("postgres", "nats")]
    (services,) = (one for one in objects if key(one)[::2] == ("NetworkPolicy", "services"))
    assert services["spec"]["egress"] == [
        {"ports": [{"port": 6432, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]},
        {"ports": [{"port": 4333, "protocol": "TCP"}]},
    ]
    texts = json.dumps(objects)
    assert "tls://nats.example:4333" in texts
    assert "nats.slackwater.svc" not in texts


def test_external_nats_without_an_address_is_refused() -> None:
    with pytest.raises(Exception, match=r"nats\.external\.url"):
        rendered({"nats": {"enabled": False}})


def test_every_feature_can_be_off(releases: Mapping[str, list[Tree]]) -> None:
    kinds = {one["kind"] for one in releases["off"]}
    assert not kinds & {"NetworkPolicy", "CustomResourceDefinition", "ClusterRole", "DaemonSet", "CronJob"}
    names = {key(one)[::2] for one in releases["off"]}
    assert ("Deployment", "quota") not in names
    assert ("Deployment", "console") in names
    assert ("PodDisruptionBudget", "console") not in names


def test_values_reach_every_pod(releases: Mapping[str, list[Tree]]) -> None:
    for one in releases["tuned"]:
        spec = (
            one["spec"].get("jobTemplate", one)["spec"]
            if "spec" in one and one["kind"] == "CronJob"
            else one.get("spec", {})
        )
        if "template" not in spec:
            continue
        pod, name = spec["template"], key(one)
        assert pod["metadata"]["labels"]["pod-label"] == "x", name
        assert pod["metadata"]["annotations"]["pod-annotation"] == "y", name
        assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}], name
        assert {"name": "extra", "emptyDir": {}} in pod["spec"]["volumes"], name
        (container,) = pod["spec"]["containers"]
        assert {"name": "extra", "mountPath": "/extra"} in container["volumeMounts"], name
        assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container.get("env", []) or name[2] == "nats", name
        if one["kind"] == "Deployment":
            assert container["image"] == "registry.example:5000/slack/water@sha256:0a1b"
            assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
            assert pod["spec"]["securityContext"] == {"runAsNonRoot": True}


def test_a_service_has_values_of_its_own(releases: Mapping[str, list[Tree]]) -> None:
    (console,) = (one for one in releases["tuned"] if key(one)[::2] == ("Deployment", "console"))
    pod = console["spec"]["template"]["spec"]
    assert console["spec"]["replicas"] == 3
    assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == ["of-console"]
    assert [one["topologyKey"] for one in pod["topologySpreadConstraints"]] == ["zone"]
    assert pod["containers"][0]["env"][-1] == {"name": "SLACKWATER_LOG_LEVEL", "value": "debug"}
    assert pod["containers"][0]["args"][-2:] == ["--port", "8460"]
    (postgres,) = (one for one in releases["tuned"] if key(one)[::2] == ("StatefulSet", "postgres"))
    (claim,) = postgres["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


def test_monitoring_is_that_of_the_tree(releases: Mapping[str, list[Tree]]) -> None:
    by_kind = {
        one["kind"]: one for one in releases["monitored"] if one["kind"] not in {o["kind"] for o in releases["default"]}
    }
    assert set(by_kind) == {"ServiceMonitor", "PrometheusRule", "ConfigMap"}
    assert by_kind["PrometheusRule"]["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())
    dashboard = by_kind["ConfigMap"]
    assert json.loads(dashboard["data"]["slackwater.json"]) == json.loads(
        (ROOT / "deploy/grafana/slackwater.json").read_text()
    )
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    monitor = by_kind["ServiceMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "p"
    (service,) = (one for one in releases["monitored"] if key(one)[::2] == ("Service", "metrics"))
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_another_namespace_is_followed_everywhere() -> None:
    (objects,) = rendered({**CLUSTER, "agent": {"namespace": "agents"}}, namespace="lending")
    texts = json.dumps(objects)
    assert {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]} == {"lending", "agents"}
    assert "slackwater-node" not in texts
    assert "slackwater.svc" not in texts
    assert '"kubernetes.io/metadata.name": "slackwater"' not in texts
