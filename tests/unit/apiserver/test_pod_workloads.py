"""The workload of a pod, from its chain of owners."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.apiserver.records import ControllerRecord, OwnerRef, PodRecord, parse_controller, parse_pod
from slackwater.apiserver.workloads import Workload, workload_of


def owner(kind: str, name: str, group: str = "apps") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def pod(labels: dict[str, str] | None = None, *owners: dict[str, Any]) -> PodRecord:
    metadata = {"namespace": "shop", "name": "web-1", "uid": "p", "labels": labels or {}, "ownerReferences": [*owners]}
    return parse_pod({"metadata": metadata, "spec": {}})


def controller(name: str, *owners: dict[str, Any], revision: str = "") -> ControllerRecord:
    metadata: dict[str, Any] = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "ownerReferences": [*owners]}
    if revision:
        metadata["annotations"] = {"deployment.kubernetes.io/revision": revision}
    return parse_controller({"metadata": metadata})


SETS = {"shop/web-7f": controller("web-7f", owner("Deployment", "web"), revision="3"), "shop/lone": controller("lone")}
JOBS = {"shop/tidy-1": controller("tidy-1", owner("CronJob", "tidy", "batch")), "shop/once": controller("once")}
KNOWN = {"replicasets": SETS, "jobs": JOBS}


@pytest.mark.parametrize(
    ("subject", "workload"),
    [
        (pod(), Workload("shop/Pod/web-1", "")),
        (pod({"pod-template-hash": "7f"}, owner("ReplicaSet", "web-7f")), Workload("shop/Deployment/web", "3")),
        (pod({"pod-template-hash": "x"}, owner("ReplicaSet", "lone")), Workload("shop/ReplicaSet/lone", "x")),
        (
            pod({"controller-revision-hash": "db-5"}, owner("StatefulSet", "db")),
            Workload("shop/StatefulSet/db", "db-5"),
        ),
        (pod({"controller-revision-hash": "l-2"}, owner("DaemonSet", "logs")), Workload("shop/DaemonSet/logs", "l-2")),
        (pod({}, owner("Job", "tidy-1", "batch")), Workload("shop/CronJob/tidy", "tidy-1")),
        (pod({}, owner("Job", "once", "batch")), Workload("shop/Job/once", "")),
        (pod({}, owner("Workflow", "etl", "argoproj.io")), Workload("shop/Workflow/etl", "")),
        (pod({}, owner("ReplicaSet", "other", "acme.io")), Workload("shop/ReplicaSet/other", "")),
    ],
)
def test_the_topmost_owner_is_the_workload(subject: PodRecord, workload: Workload) -> None:
    assert workload_of(subject, KNOWN) == workload


def test_owners_that_only_keep_an_object_alive_are_no_workloads() -> None:
    keeper = {**owner("Deployment", "keeper"), "controller": False}
    assert workload_of(pod({}, keeper), KNOWN).key == "shop/Pod/web-1"


def test_an_owner_that_is_not_read_yet_is_marked_so() -> None:
    early = pod({"pod-template-hash": "7f"}, owner("ReplicaSet", "web-7f"))
    assert workload_of(early, {"replicasets": {}, "jobs": {}}) == Workload(
        "shop/ReplicaSet/web-7f", "7f", resolved=False
    )


def test_an_owner_of_the_same_name_with_another_uid_is_not_the_owner() -> None:
    owner_before = OwnerRef("apps", "ReplicaSet", "web-7f", "uid-of-before")
    subject = pod({"pod-template-hash": "7f"})
    stale = PodRecord(subject.key, "p", "", "", "", 0, subject.labels, owner_before, subject.request, subject.borrowed)
    assert not workload_of(stale, KNOWN).resolved
