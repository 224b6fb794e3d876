"""values.yaml of the chart and its schema. Defaults of a workload are those of its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contracts.helm_component import Component
from contracts.helm_templates import lines_of

Schema = dict[str, Any]
FLAG: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
LIST: Schema = {"type": "array"}
COUNT: Schema = {"type": "integer", "minimum": 0}
QUANTITY: Schema = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?)?$"}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}

PULL: Schema = {"enum": ["Always", "IfNotPresent", "Never", ""]}
IMAGE: Sequence[tuple[str, Schema, str]] = (
    ("registry", TEXT, "registry, with its port; empty: as the repository says"),
    ("repository", TEXT, "name of the image"),
    ("tag", TEXT, "tag; empty: the version of the chart"),
    ("digest", TEXT, "sha256:…, goes before the tag"),
    ("pullPolicy", PULL, "when nodes pull it"),
)
EVERY_POD: Sequence[tuple[str, Schema, str]] = (
    ("podLabels", OBJECT, "further labels of its pods"),
    ("podAnnotations", OBJECT, "further annotations of its pods"),
    ("nodeSelector", OBJECT, "labels of nodes where it may run"),
    ("tolerations", LIST, "taints that it tolerates"),
    ("affinity", OBJECT, "affinity"),
    ("topologySpreadConstraints", LIST, "empty: spread over nodes, if possible"),
    ("priorityClassName", TEXT, "priority class"),
    ("extraEnv", LIST, "further environment variables"),
    ("extraVolumes", LIST, "further volumes"),
    ("extraVolumeMounts", LIST, "where they are mounted"),
)
EXTERNAL: Sequence[tuple[str, Schema, str]] = (
    ("port", PORT, "its port, for network policies"),
    ("cidrs", {"type": "array", "items": TEXT}, "its addresses, for network policies; empty: any"),
)
TITLES: Mapping[str, str] = {
    "kubernetes": "The service that writes offers, evictions and cordons to the API server, with rights of its own.",
    "agent": "The agents, one per node.",
    "postgresql": "PostgreSQL of the chart. Disabled: the secrets' `dsn` files name an external one.",
    "nats": "NATS of the chart. Disabled: an external one with JetStream, at `external.url`.",
    "migration": "The job that makes roles and schemas: a hook before anything rolls; on a first install with "
    "PostgreSQL of the chart it starts with everything else.",
    "backup": "A copy of everything each night.",
}


def _with_defaults(component: Component) -> dict[str, tuple[Any, Schema, str]]:
    """Default, schema and comment of every value of a workload."""
    pod, container = component.pod, component.container
    secret = next((one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one), None)
    found: dict[str, tuple[Any, Schema, str]] = {}
    if component.path != "migration":
        enabled = component.path != "kubernetes"
        found["enabled"] = (enabled, FLAG, "whether it is part of the release")
    found |= _own(component)
    if secret is not None:
        found["secretName"] = (secret, TEXT, "existing secret, made by `slackwater secrets`")
    found["resources"] = (container["resources"], OBJECT, "requests and limits")
    for name, schema, comment in EVERY_POD:
        default = pod.get(name) if name in ("nodeSelector", "tolerations", "priorityClassName") else None
        found[name] = (default if default is not None else _empty(schema), schema, comment)
    if "args" in container:
        found["extraArgs"] = ([], LIST, "further arguments")
    return found


def _own(component: Component) -> dict[str, tuple[Any, Schema, str]]:
    """What only some workloads have."""
    found: dict[str, tuple[Any, Schema, str]] = {}
    kind, path = component.workload["kind"], component.path
    if path == "kubernetes":
        found["documents"] = (False, FLAG, "custom resources are the documents of the services")
    if path == "agent":
        found["namespace"] = ("slackwater-node", TEXT, "their namespace: privileged, unlike that of the release")
        found["createNamespace"] = (True, FLAG, "whether the chart makes it")
    if kind == "Deployment":
        found["replicas"] = (component.workload["spec"]["replicas"], COUNT, "replicas")
        budget = {"enabled": True, "minAvailable": 1}
        found["podDisruptionBudget"] = (
            budget,
            _object({"enabled": FLAG, "minAvailable": {"type": ["integer", "string"]}}),
            "how many stay while nodes are drained",
        )
    if kind in ("Deployment", "DaemonSet"):
        found["serviceAccountAnnotations"] = ({}, OBJECT, "annotations of its service account")
    if kind == "CronJob":
        found["schedule"] = (component.workload["spec"]["schedule"], TEXT, "when, as cron says it")
    sizes = {"postgresql": "20Gi", "nats": "10Gi", "backup": "20Gi"}
    if path in sizes:
        storage = {"size": sizes[path], "className": ""}
        schema = _object({"size": QUANTITY, "className": TEXT})
        found["storage"] = (storage, schema, "its volume; without a class, the cluster's default one")
    if path in ("postgresql", "nats", "agent"):
        repository, _, tag = str(component.container["image"]).partition(":")
        image = {"registry": "", "repository": repository, "tag": "" if path == "agent" else tag}
        image |= {"digest": "", "pullPolicy": "IfNotPresent"}
        found["image"] = (image, _object({name: schema for name, schema, _ in IMAGE}), "its image")
    if path in ("postgresql", "nats"):
        external: dict[str, Any] = {"port": 5432 if path == "postgresql" else 4222, "cidrs": []}
        schemas = {name: schema for name, schema, _ in EXTERNAL}
        if path == "nats":
            external = {"url": "", **external}
            schemas["url"] = {"type": "string", "pattern": "^$|^(nats|tls|ws|wss)://"}
        found["external"] = (external, _object(schemas), "one outside of the chart, if this is disabled")
    return found


def _empty(schema: Schema) -> Any:
    return {"object": {}, "array": [], "string": ""}[schema["type"]]


COMMON: Mapping[str, tuple[Any, Schema, str]] = {
    "labels": ({}, OBJECT, "further labels of every object"),
    **{name: (_empty(schema), schema, f"{comment}; of every pod") for name, schema, comment in EVERY_POD},
    "podSecurityContext": ({}, OBJECT, "in place of the one of the control plane's pods, for OpenShift"),
}
TOP: Mapping[str, tuple[Any, Schema, str]] = {
    "image": (
        {"registry": "", "repository": "slackwater", "tag": "", "digest": "", "pullPolicy": "IfNotPresent"},
        {"type": "object", "properties": {name: schema for name, schema, _ in IMAGE}, "additionalProperties": False},
        "The image of the services. Build it as deploy/kubernetes/README.md says.",
    ),
    "imagePullSecrets": ([], LIST, "Secrets to pull images with."),
    "crds": (
        {"install": True, "keep": True},
        {"type": "object", "properties": {"install": FLAG, "keep": FLAG}, "additionalProperties": False},
        "The kinds of documents, their admission policies; keep: they outlive the release.",
    ),
    "rbac": (
        {"create": True},
        {"type": "object", "properties": {"create": FLAG}, "additionalProperties": False},
        "Roles viewer, operator and admin, and the rights of the service kubernetes.",
    ),
    "networkPolicy": (
        {"enabled": True},
        {"type": "object", "properties": {"enabled": FLAG}, "additionalProperties": False},
        "Every network path that is not named is closed.",
    ),
}
MONITOR: Schema = {
    "type": "object",
    "properties": {
        "enabled": FLAG,
        "additionalLabels": OBJECT,
        "interval": TEXT,
        "relabelings": LIST,
        "tokenSecret": TEXT,
        "tokenKey": TEXT,
    },
    "additionalProperties": False,
}
MONITORING: Mapping[str, tuple[Any, Schema, str]] = {
    "metrics": (
        {
            "serviceMonitor": {
                "enabled": False,
                "additionalLabels": {},
                "interval": "30s",
                "relabelings": [],
                "tokenSecret": "metrics-token",
                "tokenKey": "viewer",
            },
            "prometheusRule": {"enabled": False, "additionalLabels": {}},
        },
        {
            "type": "object",
            "properties": {
                "serviceMonitor": MONITOR,
                "prometheusRule": {
                    "type": "object",
                    "properties": {"enabled": FLAG, "additionalLabels": OBJECT},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "For the Prometheus operator. The secret holds a viewer's token: every request needs one.",
    ),
    "grafana": (
        {"dashboards": {"enabled": False, "label": "grafana_dashboard", "labelValue": "1", "namespace": ""}},
        {
            "type": "object",
            "properties": {
                "dashboards": {
                    "type": "object",
                    "properties": {"enabled": FLAG, "label": TEXT, "labelValue": TEXT, "namespace": TEXT},
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "The dashboard as a ConfigMap that Grafana's sidecar finds; without a namespace, in that of the release.",
    ),
}


def values_text(components: Mapping[str, Component]) -> str:
    """values.yaml, with a comment above each value."""
    lines = ["# Generated by contracts/generate.py: defaults of workloads are those of deploy/kubernetes."]
    for name, (default, _, comment) in TOP.items():
        lines += ["", f"# -- {comment}", *lines_of({name: default})]
    lines += ["", "# -- For every pod; a workload's own values go before these.", "common:"]
    lines += _indented(COMMON)
    lines += ["", "# The services."]
    lines.append("services:")
    for path, component in components.items():
        if path.startswith("services."):
            lines += [f"  {component.name}:", *(f"  {line}" for line in _indented(_with_defaults(component)))]
    for path, component in components.items():
        if not path.startswith("services."):
            lines += ["", f"# {TITLES[path]}", f"{path}:", *_indented(_with_defaults(component))]
    for name, (default, _, comment) in MONITORING.items():
        lines += ["", f"# -- {comment}", *lines_of({name: default})]
    return "\n".join(lines) + "\n"


def _indented(values: Mapping[str, tuple[Any, Schema, str]]) -> list[str]:
    found = []
    for name, (default, _, comment) in values.items():
        found += [f"  # -- {comment}", *(f"  {line}" for line in lines_of({name: default}))]
    return found


def values_schema(components: Mapping[str, Component]) -> Schema:
    """values.schema.json: what values may be; unknown ones are refused."""

    def of(values: Mapping[str, tuple[Any, Schema, str]]) -> Schema:
        return _object({name: {**schema, "description": comment} for name, (_, schema, comment) in values.items()})

    services = {c.name: of(_with_defaults(c)) for path, c in components.items() if path.startswith("services.")}
    others = {path: of(_with_defaults(c)) for path, c in components.items() if not path.startswith("services.")}
    top = {name: {**schema, "description": comment} for name, (_, schema, comment) in {**TOP, **MONITORING}.items()}
    properties = {**top, "common": of(COMMON), "services": _object(services), **others, "global": OBJECT}
    return {"$schema": "https://json-schema.org/draft-07/schema#", **_object(properties)}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}
