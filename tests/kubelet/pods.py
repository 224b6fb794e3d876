"""Pods as an API server has them, and the cgroups that a kubelet makes of them, for the tests of the driver."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]
NODE = "worker-1"
_uids = itertools.count(1)


def new_uid() -> str:
    """As the API server makes them: hexadecimal, with dashes."""
    number = next(_uids)
    return f"{number:08x}-aaaa-4bbb-8ccc-{number:012x}"


def container_id(number: int) -> str:
    return f"{number:064x}"


def container(name: str = "main", /, **amounts: str) -> Document:
    """`batch_cpu="2k"` is a request and limit of slackwater.io/batch-cpu; `cpu="1"` a request, `cpu_limit` a limit."""
    requests, limits = dict[str, str](), dict[str, str]()
    for key, amount in amounts.items():
        stem = key.removesuffix("_limit")
        resource = f"slackwater.io/{stem.replace('_', '-')}" if "_" in stem else stem
        if key.endswith("_limit"):
            limits[resource] = amount
        else:
            requests[resource] = amount
            if "/" in resource:  # the API server takes no request of an extended resource without its limit
                limits[resource] = amount
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}}


def node_pod(
    name: str,
    *containers: Document,
    uid: str | None = None,
    node: str = NODE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
    qos_class: str = "BestEffort",
    owner: Document | None = None,
    running: Mapping[str, str] | None = None,
    resources: Mapping[str, Document] | None = None,
    phase: str = "Running",
    **spec: Any,
) -> Document:
    """`running` are container ids with the scheme of their runtime, by container; `resources` what the kubelet says
    that it gave them."""
    metadata: Document = {
        "name": name, "namespace": "default", "uid": uid or new_uid(), "labels": dict(labels or {}),
        "annotations": dict(annotations or {}), "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True, "apiVersion": "v1", "uid": "o", **owner}]
    statuses: list[Document] = [
        {"name": key, "containerID": value, "state": {"running": {}}, "resources": (resources or {}).get(key)}
        for key, value in (running or {}).items()
    ]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "priority": priority, "containers": [*(containers or (container(),))], **spec},
        "status": {
            "phase": phase, "qosClass": qos_class, "startTime": "2026-01-01T00:00:01Z", "containerStatuses": statuses,
        },
    }  # fmt: skip
