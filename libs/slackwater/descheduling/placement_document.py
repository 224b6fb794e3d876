"""A ClusterPlacement as JSON, so that a decision over it can be repeated. What has its default is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from slackwater.descheduling.placement import ClusterPlacement, KubeQos, PlacedPod, PlacementNode
from slackwater.model.placement_rules import (
    AntiAffinityRule,
    HostPort,
    LabelOperator,
    LabelRequirement,
    NodeTaint,
    PodToleration,
    SpreadRule,
)
from slackwater.model.tiers import QoSClass, Tier


def placement_document(cluster: ClusterPlacement) -> dict[str, Any]:
    """Returns the JSON of a cluster."""
    return {
        "nodes": [_compact(node) for node in cluster.nodes],
        "pods": [_compact(pod) for pods in cluster.pods.values() for pod in pods],
    }


def placement_from(document: Mapping[str, Any]) -> ClusterPlacement:
    """Returns the cluster of a `placement_document`. Raises KeyError, TypeError, ValueError for anything else."""
    nodes = [_node(each) for each in document["nodes"]]
    pods: dict[str, list[PlacedPod]] = {node.name: [] for node in nodes}
    for each in document["pods"]:
        pod = _pod(each)
        pods.setdefault(pod.node, []).append(pod)
    return ClusterPlacement(nodes, pods)


def _node(document: Mapping[str, Any]) -> PlacementNode:
    taints = tuple(NodeTaint(**taint) for taint in document.get("taints", ()))
    return PlacementNode(**{**document, "taints": taints, "reports": tuple(document.get("reports", ()))})


def _pod(document: Mapping[str, Any]) -> PlacedPod:
    read = dict(document)
    for name, kind in (("tier", Tier), ("qos", QoSClass), ("kube_qos", KubeQos)):
        if name in read:
            read[name] = kind(read[name])
    read["affinity"] = tuple(_requirements(term) for term in document.get("affinity", ()))
    for name in ("owner_kinds", "images", "unread_rules"):
        read[name] = tuple(document.get(name, ()))
    read["spread"] = tuple(SpreadRule(**_with_expressions(each)) for each in document.get("spread", ()))
    read["anti_affinity"] = tuple(
        AntiAffinityRule(**{**_with_expressions(each), "namespaces": tuple(each.get("namespaces", ()))})
        for each in document.get("anti_affinity", ())
    )
    read["host_ports"] = tuple(HostPort(**each) for each in document.get("host_ports", ()))
    read["tolerations"] = tuple(PodToleration(**each) for each in document.get("tolerations", ()))
    return PlacedPod(**read)


def _with_expressions(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {**rule, "expressions": _requirements(rule.get("expressions", ()))}


def _requirements(term: Sequence[Mapping[str, Any]]) -> tuple[LabelRequirement, ...]:
    return tuple(
        LabelRequirement(each["key"], LabelOperator(each.get("operator", "In")), tuple(each.get("values", ())))
        for each in term
    )


def _compact(value: Any) -> dict[str, Any]:
    found = {}
    for field in fields(value):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        amount = getattr(value, field.name)
        if amount != default:
            found[field.name] = _plain(amount)
    return found


def _plain(value: Any) -> Any:
    match value:
        case NodeTaint() | PodToleration() | SpreadRule() | AntiAffinityRule() | LabelRequirement() | HostPort():
            return _compact(value)
        case Tier() | QoSClass() | KubeQos() | LabelOperator():
            return value.value
        case Mapping():
            return {key: _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
    return value
