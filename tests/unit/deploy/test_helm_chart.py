"""The Helm chart, rendered by Helm: what values change, and that its schema knows them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from contracts.manifests import plain_values
from deploy_files import ROOT
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, call, rendered

from slackwater.runtime.service_list import service_names

pytestmark = pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)

Tree = dict[str, Any]
LABELS = {
    *("helm.sh/chart", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"),
    "app.kubernetes.io/part-of",
}
EXTERNAL = {
    "postgresql": {
        "external": {
            "host": "db.example",
            "port": 6432,
            "cidrs": ["10.1.0.0/16"],
            "caSecret": {"name": "db-ca"},
        }
    },
    "nats": {"external": {"url": "tls://nats.example:4333", "port": 4333, "caSecret": {"name": "nats-ca"}}},
}
OFF = {
    "networkPolicy": {"enabled": False},
    "crds": {"install": False},
    "rbac": {"create": False},
    "secrets": {"create": False},
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
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}, {"name": "FURTHER", "value": "0"}],
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
            "extraEnv": [{"name": "SLACKWATER_HTTP_HOST", "value": "::"}, {"name": "FURTHER", "value": "1"}],
        }
    },
    "postgresql": {"storage": {"size": "1Gi", "className": "fast"}},
}
MONITORED = {
    "agent": {"metrics": {"enabled": True}},
    "metrics": {
        "serviceMonitor": {"enabled": True, "additionalLabels": {"release": "p"}},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
    },
    "grafana": {"dashboards": {"enabled": True}},
}
CLUSTER = {"kubernetes": {"enabled": True, "documents": True}}
POD: Tree = {
    "podLabels": {"own": "label"},
    "podAnnotations": {"own": "annotation"},
    "nodeSelector": {"kubernetes.io/os": "own"},
    "tolerations": [{"key": "own", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 3, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "own",
    "extraEnv": [{"name": "OWN", "value": "1"}],
    "extraVolumes": [{"name": "own", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "own", "mountPath": "/own"}],
}
OWN = ("postgresql", "nats", "migration", "agent", "backup")
CLUSTER_POD = {"kubernetes": {"enabled": True, **POD}}


@pytest.fixture(scope="module")
def releases() -> Mapping[str, list[Tree]]:
    """Objects by the name of the values, rendered in one process."""
    values = {
        "default": {},
        "plain": plain_values(CLUSTER),
        "external": EXTERNAL,
        "off": OFF,
        "tuned": TUNED,
        "monitored": MONITORED,
        "cluster": CLUSTER,
    }
    return dict(zip(values, rendered(*values.values()), strict=True))


def key(one: Tree) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def test_its_version_is_that_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_every_object_has_the_labels_of_the_chart(releases: Mapping[str, list[Tree]]) -> None:
    for name, objects in releases.items():
        missing = [key(one) for one in objects if not set(one["metadata"].get("labels", {})) >= LABELS]
        assert missing == [], name


def test_the_page_reaches_the_first_offer_within_one_screen() -> None:
    page = (CHART.parents[2] / "docs" / "how-to" / "install-on-kubernetes.md").read_text()
    lines = page.partition("shows the first offers")[0].splitlines()
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 30, "rows of 80 columns"


def test_helm_has_nothing_to_say_against_it() -> None:
    report = call("lint", chart=str(CHART), values=TUNED)
    assert (report["errors"], [one for one in report["messages"] if one["severity"] > 1]) == ([], [])


def template_of(one: Tree) -> Tree | None:
    spec = one.get("spec", {})
    spec = spec["jobTemplate"]["spec"] if one["kind"] == "CronJob" else spec
    template: Tree | None = spec.get("template")
    return template


def pod_of(objects: list[Tree], kind: str, name: str) -> Tree:
    (found,) = (one for one in objects if key(one)[::2] == (kind, name))
    spec: Tree = found["spec"]
    spec = spec["jobTemplate"]["spec"] if kind == "CronJob" else spec
    pod: Tree = spec["template"]["spec"]
    return pod


def test_values_are_checked_and_the_wrong_one_is_named() -> None:
    wrong = {
        "replicaz": {"services": {"console": {"replicaz": 2}}},
        "replicas": {"services": {"console": {"replicas": "two"}}},
        "pullPolicy": {"image": {"pullPolicy": "sometimes"}},
        "size": {"postgresql": {"storage": {"size": "much"}}},
        "sslMode": {"postgresql": {"external": {"sslMode": "sometimes"}}},
        "apiServerPorts": {"networkPolicy": {"apiServerPorts": []}},
        "logLevel": {"logLevel": "loud"},
        "mode": {"mode": "everything"},
        "evictions": {"kubernetes": {"evictions": "all"}},
        "url": {"nats": {"external": {"url": "http://x"}}},
    }
    found = call("validate", chart=str(CHART), values=[*wrong.values(), TUNED, EXTERNAL, OFF, MONITORED, CLUSTER])
    for field, problem in zip(wrong, found, strict=False):
        assert field in problem
    assert found[len(wrong) :] == [""] * 5


def test_every_value_is_in_the_schema_and_every_group_has_a_comment() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert sorted(missing_in(yaml.safe_load(text), schema, schema["definitions"])) == []
    lines = text.splitlines()
    tops = [number for number, line in enumerate(lines) if re.match(r"[a-z]", line, re.IGNORECASE)]
    assert [lines[number] for number in tops if not lines[number - 1].startswith("# ")] == []


def missing_in(values: Tree, schema: Tree, definitions: Tree, path: str = "") -> Iterator[str]:
    """Values that a schema does not name. One without properties takes any."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/definitions/")]
    if "properties" not in schema:
        return
    assert schema["additionalProperties"] is False, path
    for name, value in values.items():
        if name not in schema["properties"]:
            yield f"{path}.{name}"
        elif isinstance(value, dict):
            yield from missing_in(value, schema["properties"][name], definitions, f"{path}.{name}")


def test_every_workload_takes_the_values_of_every_pod() -> None:
    """As the comment of `common` says, and some also arguments, a secret and annotations."""
    (pods,) = rendered({**dict.fromkeys(OWN, POD), "services": dict.fromkeys(service_names(), POD), **CLUSTER_POD})
    for one in pods:
        template = template_of(one)
        if template is None or one["metadata"]["labels"]["app.kubernetes.io/name"] in ("secrets", "access"):
            continue
        spec, name = template["spec"], key(one)
        assert template["metadata"]["labels"]["own"] == "label", name
        assert template["metadata"]["annotations"]["own"] == "annotation", name
        fields = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName")
        assert {field: spec[field] for field in fields} == {field: POD[field] for field in fields}, name
        (container,) = spec["containers"]
        for values, field in ((spec["volumes"], "extraVolumes"), (container["volumeMounts"], "extraVolumeMounts")):
            assert POD[field][0] in values, name
        assert POD["extraEnv"][0] in container["env"], name


def test_migration_runs_before_services_roll(releases: Mapping[str, list[Tree]]) -> None:
    (upgraded,) = rendered({}, upgrade=True)

    def hook(objects: list[Tree]) -> tuple[str, str]:
        (job,) = (one for one in objects if key(one)[::2] == ("Job", "slackwater-migrate"))
        annotations = job["metadata"]["annotations"]
        return annotations.get("helm.sh/hook", ""), annotations.get("helm.sh/hook-delete-policy", "")

    before = "pre-install,pre-upgrade", "before-hook-creation"
    assert hook(releases["default"]) == ("", ""), "PostgreSQL of the release is not there before"
    assert (hook(upgraded), hook(releases["external"])) == (before, before)


def test_external_servers_are_reached_and_not_installed(releases: Mapping[str, list[Tree]]) -> None:
    objects = releases["external"]
    assert not [one for one in objects if one["kind"] == "StatefulSet"]
    assert not [one for one in objects if one["metadata"]["name"] in ("slackwater-postgres", "slackwater-nats")]
    (services,) = (one for one in objects if key(one)[::2] == ("NetworkPolicy", "slackwater-services"))
    assert services["spec"]["egress"] == [
        {"ports": [{"port": 6432, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]},
        {"ports": [{"port": 4333, "protocol": "TCP"}]},
    ]
    texts = json.dumps(objects)
    assert "tls://nats.example:4333" in texts
    assert "nats.slackwater.svc:4222" not in texts
    arguments = pod_of(objects, "Job", "slackwater-secrets-hook")["containers"][0]["args"]
    address = "postgresql://slackwater@db.example:6432/slackwater?sslmode=verify-full"
    assert f"--postgres-address={address}" in arguments
    assert "--postgres-ca=/run/secrets/postgresql-ca/ca.crt" in arguments
    assert "--nats-ca=/run/secrets/nats-ca/ca.crt" in arguments


def test_every_feature_can_be_off(releases: Mapping[str, list[Tree]]) -> None:
    kinds = {one["kind"] for one in releases["off"]}
    assert not kinds & {"NetworkPolicy", "CustomResourceDefinition", "ClusterRole", "DaemonSet", "CronJob"}
    names = {key(one)[::2] for one in releases["off"]}
    assert ("Deployment", "slackwater-quota") not in names
    assert ("Deployment", "slackwater-console") in names
    assert ("PodDisruptionBudget", "slackwater-console") not in names


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
        assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"], name
        if one["kind"] == "Deployment":
            assert container["image"] == "registry.example:5000/slack/water@sha256:0a1b"
            assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
            assert pod["spec"]["securityContext"] == {"runAsNonRoot": True}


def test_a_service_has_values_of_its_own(releases: Mapping[str, list[Tree]]) -> None:
    (console,) = (one for one in releases["tuned"] if key(one)[::2] == ("Deployment", "slackwater-console"))
    pod = console["spec"]["template"]["spec"]
    assert console["spec"]["replicas"] == 3
    assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == ["of-console"]
    assert [one["topologyKey"] for one in pod["topologySpreadConstraints"]] == ["zone"]
    variables = pod["containers"][0]["env"]
    assert len({one["name"] for one in variables}) == len(variables), "one of the same name is replaced"
    assert {one["name"]: one["value"] for one in variables}["SLACKWATER_HTTP_HOST"] == "::"
    assert variables[-1] == {"name": "FURTHER", "value": "1"}, "a workload's own go before those of every pod"
    assert pod["containers"][0]["args"][-2:] == ["--port", "8460"]
    (postgres,) = (one for one in releases["tuned"] if key(one)[::2] == ("StatefulSet", "slackwater-postgres"))
    (claim,) = postgres["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


def test_monitoring_is_that_of_the_tree(releases: Mapping[str, list[Tree]]) -> None:
    by_kind = {
        one["kind"]: one for one in releases["monitored"] if one["kind"] not in {o["kind"] for o in releases["default"]}
    }
    assert set(by_kind) == {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"}
    assert by_kind["PrometheusRule"]["spec"] == yaml.safe_load((CHART / "files/rules.yaml").read_text())
    dashboard = by_kind["ConfigMap"]
    assert json.loads(dashboard["data"]["slackwater.json"]) == json.loads((CHART / "files/slackwater.json").read_text())
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    monitor = by_kind["ServiceMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "p"
    (service,) = (one for one in releases["monitored"] if key(one)[::2] == ("Service", "slackwater-metrics"))
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_another_namespace_is_followed_everywhere() -> None:
    (objects,) = rendered({**CLUSTER, "agent": {"namespace": "agents"}}, namespace="lending")
    texts = json.dumps(objects)
    assert {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]} == {"lending", "agents"}
    assert "slackwater-node" not in texts
    assert "slackwater.svc" not in texts
    assert '"kubernetes.io/metadata.name": "slackwater"' not in texts
