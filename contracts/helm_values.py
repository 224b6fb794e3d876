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

NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", "maxLength": 40}
PULL: Schema = {"enum": ["Always", "IfNotPresent", "Never", ""]}
IMAGE: Sequence[tuple[str, Schema, str]] = (
    ("registry", TEXT, "registry, with its port; empty: as of `image`"),
    ("repository", TEXT, "name of the image; empty: that of `image` with `-agent`"),
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
    ("extraEnv", LIST, "environment variables; one of the same name goes before that of the chart"),
    ("extraVolumes", LIST, "further volumes"),
    ("extraVolumeMounts", LIST, "where they are mounted"),
)
KEY: Schema = {
    "type": "object",
    "properties": {"name": TEXT, "key": TEXT},
    "additionalProperties": False,
}
CIDRS: Schema = {"type": "array", "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"}}
EXTERNAL_POSTGRESQL: Mapping[str, tuple[Any, Schema]] = {
    "host": ("", TEXT),
    "port": (5432, PORT),
    "database": ("slackwater", TEXT),
    "user": ("slackwater", TEXT),
    "passwordSecret": ({"name": "postgresql-admin", "key": "password"}, KEY),
    "sslMode": ("verify-full", {"enum": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]}),
    "caSecret": ({"name": "", "key": "ca.crt"}, KEY),
    "cidrs": ([], CIDRS),
}
"""Default and schema of each value of an external PostgreSQL."""
EXTERNAL_NATS: Mapping[str, tuple[Any, Schema]] = {
    "url": ("", {"type": "string", "pattern": "^$|^(nats|tls|ws|wss)://"}),
    "port": (4222, PORT),
    "caSecret": ({"name": "", "key": "ca.crt"}, KEY),
    "cidrs": ([], CIDRS),
}
TITLES: Mapping[str, str] = {
    "kubernetes": "The service that writes offers, evictions and cordons to the API server, with rights of its own.",
    "agent": "The agents, one per node.",
    "postgresql": "PostgreSQL: a small one of the chart, or with `external.host` yours. `passwordSecret` is the secret "
    "with the password of `user`, which creates roles and schemas; `caSecret` that with its authority "
    "(empty: those of the image); `cidrs` narrow network policies.",
    "nats": "NATS with JetStream: a small one of the chart, or with `external.url` one for Slackwater alone, whose "
    "configuration includes `access.conf` of the secret `<release>-nats`.",
    "migration": "The job that makes roles and schemas: a hook before anything rolls; on a first install with "
    "PostgreSQL of the chart it starts with everything else.",
    "backup": "A copy of everything each night.",
}


def _with_defaults(component: Component) -> dict[str, tuple[Any, Schema, str]]:
    """Default, schema and comment of every value of a workload."""
    pod, container = component.pod, component.container
    secret = next((one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one), None)
    found: dict[str, tuple[Any, Schema, str]] = {}
    if component.path not in ("migration", "postgresql", "nats"):
        enabled = component.path != "kubernetes"
        found["enabled"] = (enabled, FLAG, "whether it is part of the release")
    found |= _own(component)
    if secret is not None:
        found["secretName"] = ("", TEXT, "an existing secret with its files; empty: the chart's")
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
    found |= OWN.get(path, {})
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
        image = {"registry": "", "repository": f"library/{repository}", "tag": tag}
        if path == "agent":
            image |= {"repository": "", "tag": ""}
        image |= {"digest": "", "pullPolicy": "IfNotPresent"}
        found["image"] = (image, _object({name: schema for name, schema, _ in IMAGE}), "its image")
    if path in ("postgresql", "nats"):
        given = EXTERNAL_POSTGRESQL if path == "postgresql" else EXTERNAL_NATS
        external = {name: default for name, (default, _) in given.items()}
        schema = _object({name: schema for name, (_, schema) in given.items()})
        found["external"] = (external, schema, "one that exists, in place of the chart's")
    return found


def _empty(schema: Schema) -> Any:
    return {"object": {}, "array": [], "string": ""}[schema["type"]]


FEATURES: Mapping[str, tuple[Any, Schema, str]] = {
    "documents": (False, FLAG, "custom resources are the documents of the services"),
    "offers": (True, FLAG, "offers become resources of nodes"),
    "evictions": ("carry-out", {"enum": ["carry-out", "dry-run", "off"]}, "evictions of ensurance and of moves"),
    "cordons": (
        "NoSchedule",
        {"enum": ["NoSchedule", "PreferNoSchedule", "off"]},
        "effect of the taint of cordoned nodes",
    ),
    "profiles": ("auto", {"enum": ["auto", "policy", "webhook", "off"]}, "by what profiles change pods"),
    "withdraw": (
        False,
        FLAG,
        "keeps the rights of features that are off, so that what they wrote is withdrawn; then set it to false",
    ),
}
AGENT: Mapping[str, tuple[Any, Schema, str]] = {
    "namespace": ("", TEXT, "their namespace, which exists; empty: that of the release"),
    "access": (
        {"secretName": "", "hostPath": ""},
        {
            "type": "object",
            "properties": {"secretName": TEXT, "hostPath": {"type": "string", "pattern": "^(/.*)?$"}},
            "additionalProperties": False,
        },
        "files to ask for access with: an existing secret, or a folder of each node; empty: the chart's secret",
    ),
    "metrics": (
        {"enabled": False, "port": 8462},
        {"type": "object", "properties": {"enabled": FLAG, "port": PORT}, "additionalProperties": False},
        "whether they serve /metrics, for a viewer's token",
    ),
}
OWN: Mapping[str, Mapping[str, tuple[Any, Schema, str]]] = {
    "kubernetes": FEATURES,
    "agent": AGENT,
    "nats": {"replicas": (1, {"enum": [1, 3]}, "brokers; three are a cluster, and keep three copies of every stream")},
}
COMMON: Mapping[str, tuple[Any, Schema, str]] = {
    "labels": ({}, OBJECT, "further labels of every object"),
    **{name: (_empty(schema), schema, f"{comment}; of every pod") for name, schema, comment in EVERY_POD},
    "podSecurityContext": ({}, OBJECT, "in place of the one of the control plane's pods, for OpenShift"),
}
TOP: Mapping[str, tuple[Any, Schema, str]] = {
    "nameOverride": ("", NAME, "In place of the chart's name in names of objects."),
    "fullnameOverride": ("", NAME, "What begins the names of objects; empty: the release's name, with the chart's."),
    "plainNames": (False, FLAG, "Names as in deploy/kubernetes, without the release's: to take plain manifests over."),
    "image": (
        {
            "registry": "docker.io",
            "repository": "slackwater/slackwater",
            "tag": "",
            "digest": "",
            "pullPolicy": "IfNotPresent",
        },
        {"type": "object", "properties": {name: schema for name, schema, _ in IMAGE}, "additionalProperties": False},
        "Of the services; that of the agents has `-agent` after its name. The registry is that of every image.",
    ),
    "mode": (
        "observe",
        {"enum": ["observe", "throttle", "evict", ""]},
        "What ensurance may do: observe decides and only records. An Autonomy document goes before it.",
    ),
    "logLevel": ("info", {"enum": ["debug", "info", "warning", "error"]}, "Of every service."),
    "secrets": (
        {"create": True, "schedule": "*/10 * * * *"},
        {
            "type": "object",
            "properties": {"create": FLAG, "schedule": TEXT},
            "additionalProperties": False,
        },
        "Secrets are made once and kept; a schedule renews them. Else all are yours.",
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
        {
            "enabled": True,
            "dnsCidrs": ["169.254.20.10/32"],
            "apiServerPorts": [443, 6443],
            "apiServerCidrs": [],
            "extraIngress": [],
            "extraEgress": [],
        },
        {
            "type": "object",
            "properties": {
                "enabled": FLAG,
                "dnsCidrs": CIDRS,
                "apiServerPorts": {"type": "array", "items": PORT, "minItems": 1},
                "apiServerCidrs": CIDRS,
                "extraIngress": LIST,
                "extraEgress": LIST,
            },
            "additionalProperties": False,
        },
        "Paths that are not named are closed. dnsCidrs: NodeLocal DNS; extraIngress, extraEgress: of every pod.",
    ),
}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


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
MONITORED = {
    "enabled": False,
    "additionalLabels": {},
    "interval": "30s",
    "relabelings": [],
    "tokenSecret": "",
    "tokenKey": "viewer",
}
MONITORING: Mapping[str, tuple[Any, Schema, str]] = {
    "metrics": (
        {
            "serviceMonitor": MONITORED,
            "podMonitor": MONITORED,
            "prometheusRule": {"enabled": False, "additionalLabels": {}},
        },
        {
            "type": "object",
            "properties": {
                "serviceMonitor": MONITOR,
                "podMonitor": MONITOR,
                "prometheusRule": {
                    "type": "object",
                    "properties": {"enabled": FLAG, "additionalLabels": OBJECT},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "For the Prometheus operator; podMonitor: of agents that serve metrics. No tokenSecret: the chart's.",
    ),
    "certManager": (
        {
            "enabled": False,
            "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": ""},
            "caSecret": {"name": "", "key": "ca.crt"},
        },
        {
            "type": "object",
            "properties": {
                "enabled": FLAG,
                "issuerRef": _object({"group": TEXT, "kind": {"enum": ["Issuer", "ClusterIssuer"]}, "name": TEXT}),
                "caSecret": KEY,
            },
            "additionalProperties": False,
        },
        "The broker's certificate is of this issuer; the secret has its authority, and exists before.",
    ),
    "ingress": (
        {"enabled": False, "className": "", "annotations": {}, "host": "", "tlsSecret": ""},
        {
            "type": "object",
            "properties": {
                "enabled": FLAG,
                "className": TEXT,
                "annotations": OBJECT,
                "host": TEXT,
                "tlsSecret": TEXT,
            },
            "additionalProperties": False,
        },
        "The console at a host name. With cert-manager's annotation the `tlsSecret` is made by it.",
    ),
    "httpRoute": (
        {"enabled": False, "annotations": {}, "hostnames": [], "parentRefs": []},
        {
            "type": "object",
            "properties": {
                "enabled": FLAG,
                "annotations": OBJECT,
                "hostnames": {"type": "array", "items": TEXT},
                "parentRefs": LIST,
            },
            "additionalProperties": False,
        },
        "The same behind a Gateway.",
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
