"""The hard rules of where a pod may be, as the agent reads them from the API server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kubelet.pods import node_pod

from slackwater.apiserver.pod_details import rules_of
from slackwater.model.placement_rules import (
    AntiAffinityRule,
    HostPort,
    LabelOperator,
    LabelRequirement,
    PlacementRules,
    PodToleration,
    SpreadRule,
)

ZONE_A = {"key": "zone", "operator": "In", "values": ["a"]}
OF_X = {"matchLabels": {"app": "x"}}
HOST = "kubernetes.io/hostname"
NOWHERE = LabelRequirement(HOST, values=())
"""What no labels fulfil."""


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    wanted: Any = {"nodeSelectorTerms": list(terms)} if kind == "nodeAffinity" else list(terms)
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}}


def spread_by(**fields: Any) -> dict[str, Any]:
    plain = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": OF_X}
    return {"topologySpreadConstraints": [{**plain, **fields}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}, None),
        (
            {"tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "e"}]},
            PlacementRules(
                tolerations=(PodToleration(), PodToleration("k", "v", "NoSchedule"), PodToleration("e", ""))
            ),
        ),
        ({"tolerations": [{"key": "k", "operator": "Lt", "value": "3"}]}, PlacementRules(unread=("tolerations",))),
        ({"nodeSelector": {"zone": "a"}}, PlacementRules(node_selector={"zone": "a"})),
        (
            required(
                "nodeAffinity", {"matchExpressions": [ZONE_A, {"key": "cpus", "operator": "Gt", "values": ["8"]}]}, {}
            ),
            PlacementRules(
                affinity=(
                    (
                        LabelRequirement("zone", values=("a",)),
                        LabelRequirement("cpus", LabelOperator.GT, ("8",)),
                    ),
                )
            ),
        ),
        (
            required("nodeAffinity", {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
            PlacementRules(unread=("node-affinity",)),
        ),
        (required("nodeAffinity", {}), PlacementRules(affinity=((NOWHERE,),))),
        (
            required("nodeAffinity", {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["1_0"]}]}),
            PlacementRules(affinity=((LabelRequirement("n", LabelOperator.GT, ("1_0",)),),)),
        ),
        (required("podAffinity", {"topologyKey": "zone"}), PlacementRules(unread=("pod-affinity",))),
        (
            required("podAntiAffinity", {"topologyKey": HOST, "labelSelector": {"matchExpressions": [ZONE_A]}}),
            PlacementRules(
                anti_affinity=(AntiAffinityRule(HOST, expressions=(LabelRequirement("zone", values=("a",)),)),)
            ),
        ),
        (
            required("podAntiAffinity", {"topologyKey": HOST, "labelSelector": OF_X, "namespaces": ["other"]}),
            PlacementRules(anti_affinity=(AntiAffinityRule(HOST, {"app": "x"}, namespaces=("other",)),)),
        ),
        (
            required("podAntiAffinity", {"topologyKey": HOST, "labelSelector": OF_X, "namespaceSelector": {}}),
            PlacementRules(anti_affinity=(AntiAffinityRule(HOST, {"app": "x"}, all_namespaces=True),)),
        ),
        (
            required("podAntiAffinity", {"topologyKey": HOST, "labelSelector": OF_X, "namespaceSelector": OF_X}),
            PlacementRules(
                anti_affinity=(AntiAffinityRule(HOST, {"app": "x"}, all_namespaces=True),),
                unread=("pod-anti-affinity",),
            ),
        ),
        (
            spread_by(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
            PlacementRules(
                spread=(SpreadRule("zone", 2, {"app": "x"}, min_domains=3, every_node=True, tolerated_only=True),)
            ),
        ),
        (
            spread_by(labelSelector=None),
            PlacementRules(spread=(SpreadRule("zone", 2, expressions=(LabelRequirement("zone", values=()),)),)),
        ),
        (spread_by(nodeTaintsPolicy="Sometimes"), PlacementRules(unread=("topology-spread",))),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"hostPort": 81, "protocol": "UDP"}]}]},
            PlacementRules(host_ports=(HostPort(81, "UDP"),)),
        ),
        (
            {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "2"}}}],
                "initContainers": [{"name": "i", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}],
            },
            PlacementRules(resources={"nvidia.com/gpu": 2, "ephemeral-storage": 2**30}),
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, PlacementRules(unread=("resource-claims",))),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, PlacementRules(unread=("volumes",))),
        ({"volumes": [{"name": "v", "configMap": {"name": "m"}}]}, None),
        (spread_by(), PlacementRules(spread=(SpreadRule("zone", 2, {"app": "x"}),))),
        (
            spread_by(matchLabelKeys=["revision", "absent"]),
            PlacementRules(spread=(SpreadRule("zone", 2, {"app": "x", "revision": "7"}),)),
        ),
        (spread_by(whenUnsatisfiable="ScheduleAnyway"), None),
        ({"volumes": [{"emptyDir": {}}]}, PlacementRules(local_storage=True)),
        (
            {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]},
            PlacementRules(unread=("volume-claims",), claims_volumes=True),
        ),
        (
            {"volumes": [{"ephemeral": {"volumeClaimTemplate": {}}}, {"csi": {"driver": "d"}}]},
            PlacementRules(unread=("volume-claims", "volumes"), claims_volumes=True),
        ),
        ({"nodeSelector": {f"k{number}": "v" for number in range(65)}}, PlacementRules(unread=("too-large",))),
        ({"nodeSelector": {"k": "v" * 4096}}, PlacementRules(unread=("too-large",))),
    ],
)
def test_its_hard_rules_are_read_and_those_that_cannot_be_are_named(
    spec: dict[str, Any], expected: PlacementRules | None
) -> None:
    assert rules_of(node_pod("pod", labels={"revision": "7"}, **spec)) == expected
