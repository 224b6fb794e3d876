"""Workloads by the names of owners alone, as an agent finds them that reads pods only."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.apiserver.records import parse_pod
from slackwater.apiserver.workloads import workload_by_names


@pytest.mark.parametrize(
    ("kind", "owner", "labels", "workload"),
    [
        ("apps/v1 ReplicaSet", "shop-web", {}, "ReplicaSet/shop-web"),
        ("apps/v1 ReplicaSet", "shop-db", {"app": "shop"}, "ReplicaSet/shop-db"),
        ("apps/v1 ReplicaSet", "web-v2", {"pod-template-hash": ""}, "ReplicaSet/web-v2"),
        ("apps/v1 ReplicaSet", "web-canary-5f6d8c7b9", {"pod-template-hash": "5f6d8c7b9"}, "Deployment/web-canary"),
        ("apps/v1 ReplicaSet", "web-5f6d8c7b9-7", {"pod-template-hash": "5f6d8c7b9"}, "ReplicaSet/web-5f6d8c7b9-7"),
        ("apps/v1 ReplicaSet", "web-5f6d8c7b9", {"rollouts-pod-template-hash": "5f6d8c7b9"}, "Rollout/web"),
        ("apps/v1 ReplicaSet", "web-blue", {"rollouts-pod-template-hash": "5f6d8c7b9"}, "ReplicaSet/web-blue"),
        ("apps.kruise.io/v1 CloneSet", "web-123456", {"pod-template-hash": "123456"}, "CloneSet/web-123456"),
        ("batch/v1 Job", "report-29010030", {}, "CronJob/report"),
        ("batch/v1 Job", "report-1764460800", {}, "CronJob/report"),
        ("batch/v1 Job", "report-2024", {}, "Job/report-2024"),
        ("batch/v1 Job", "report-20261130", {}, "Job/report-20261130"),
        ("batch/v1 Job", "etl-2026113006", {}, "Job/etl-2026113006"),
        ("batch/v1 Job", "order-00012345", {}, "Job/order-00012345"),
        ("batch/v1 Job", "report-29384756-manual", {}, "Job/report-29384756-manual"),
        ("batch/v1 Job", "train-7-worker-0", {}, "Job/train-7-worker-0"),
        ("acme.io/v1 Job", "report-29010030", {}, "Job/report-29010030"),
        ("v1 Node", "node-1", {}, "Pod/x"),
        ("v1 ReplicationController", "web-3", {}, "ReplicationController/web-3"),
    ],
)  # fmt: skip
def test_a_name_is_cut_only_where_an_owner_has_added_to_it(
    kind: str, owner: str, labels: dict[str, str], workload: str
) -> None:
    version, _, name = kind.rpartition(" ")
    reference: dict[str, Any] = {"apiVersion": version, "kind": name, "name": owner, "uid": "u", "controller": True}
    metadata = {"namespace": "shop", "name": "x-node-1", "uid": "p", "labels": labels, "ownerReferences": [reference]}
    assert workload_by_names(parse_pod({"metadata": metadata, "spec": {}})) == f"shop/{workload}"
