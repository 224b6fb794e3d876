"""What doctor says about profiles of a cluster."""

from __future__ import annotations

from typing import Any

from slackwater.cli.cluster_profiles import limits_in, profile_findings
from slackwater.cli.findings import Level


def pod(namespace: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": "p", "labels": {"app": "spark"}},
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
    }


BURSTABLE = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
NAMESPACES = [{"metadata": {"name": name}} for name in ("jobs", "sizes", "team", "kube-system")]
PROFILE = {"metadata": {"name": "gold"}, "spec": {"selector": {"matchLabels": {"app": "spark"}}, "tier": "batch"}}


def test_it_counts_what_stays_and_names_limited_namespaces() -> None:
    quota = {"metadata": {"namespace": "team", "name": "compute"}, "spec": {"hard": {"memory": "4Gi"}}}
    bounds = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
    limited = limits_in([quota], [{"metadata": {"namespace": "sizes", "name": "small"}, "spec": bounds}])
    pods = [
        pod("jobs", BURSTABLE),
        pod("jobs", {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}),
        pod("jobs", BURSTABLE, priorityClassName="system-node-critical"),
        pod("jobs", {"requests": {"cpu": "0"}}),
        pod("jobs", {"limits": {"memory": "9223372036854775807"}}),
        pod("team", BURSTABLE),
        pod("sizes", BURSTABLE),
        pod("kube-system", BURSTABLE),
    ]
    (finding,) = profile_findings([PROFILE], pods, NAMESPACES, limited)
    assert finding.level is Level.WARN
    for part in (
        "memory stays (slackwater.io/batch-memory has no limit beside its request) in 1 pod",
        "cpu stays (huge pages need CPU and memory of the node) in 1 pod",
        "cpu stays (it is 0) in 1 pod",
        "memory stays (it is more than 8Pi) in 1 pod",
        "limited namespaces: sizes (LimitRange small), team (ResourceQuota compute)",
    ):
        assert part in finding.seen


def test_a_profile_without_obstacles_and_a_wrong_one() -> None:
    wrong = {"metadata": {"name": "wrong"}, "spec": {"tier": "batch"}}
    fine, refused = profile_findings([PROFILE, wrong], [pod("jobs", {"limits": {"cpu": "1"}})], NAMESPACES, {})
    assert (fine.level, refused.level) == (Level.OK, Level.WARN)
    assert "selector or namespaceSelector is required" in refused.seen
