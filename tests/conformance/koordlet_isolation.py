"""Suites of koordlet_qos.json and crane.json about cgroups of pods: what isolates batch pods, weights, and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.agent.domain.controls.cpu_limit import quota_us
from slackwater.agent.domain.kubelet import PodShare, share_of
from slackwater.agent.domain.kubelet_cgroups import systemd_path
from slackwater.agent.domain.weights import (
    MAX_SHARES,
    MIN_SHARES,
    shares_of_weight,
    weight_of_shares,
)
from slackwater.apiserver.node_pods import parse_node_pod

_PERIOD_US = 100_000
_ONLY = "only"


def batch_pod(case: Case) -> Verdict:
    given = case["in"]
    if "context" in given:
        return _no_hook()
    if (given["ratio"] or -1) > 1:
        return not_covered("CPU normalization, which no issue asks for")
    share = _share(given["spec"] or {}, given["cfs_quota_enabled"])
    if share is None:
        return compare({}, wanted(case))
    quota = -1 if share.cpu_milli is None else quota_us(share.cpu_milli, _PERIOD_US)
    limit = -1 if share.memory_bytes is None else share.memory_bytes
    return compare({"cpu_shares": share.shares, "cfs_quota": quota, "memory_limit": limit}, wanted(case))


def batch_container(case: Case) -> Verdict:
    """The pod's quota bounds its containers, so that theirs are not written."""
    given, want = case["in"], wanted(case)
    if "context" in given:
        return _no_hook()
    share = _share({_ONLY: given["spec"]} if given["spec"] else {}, given["cfs_quota_enabled"])
    if share is None:
        return compare({}, want)
    if given["spec"]["req"] is None:
        return differ("limit-is-request")
    one = share.containers[_ONLY]
    got = {"cpu_shares": one.shares, "memory_limit": -1 if one.memory_bytes is None else one.memory_bytes}
    seen = compare({**got, "cfs_quota": -1}, want)
    if seen.word == "FAIL" and compare({**got, "cfs_quota": want.get("cfs_quota")}, want).word == "pass":
        return differ("quota-of-the-pod")
    return seen


def _no_hook() -> Verdict:
    return not_covered("a hook's request without content: there are no hooks")


def _share(spec: Mapping[str, Any], limits_cpu: bool | None) -> PodShare | None:
    """The share of a pod whose containers ask for the peer's batch resources."""
    containers = [
        {
            "name": name,
            "resources": {
                part: _resources(amounts[short])
                for part, short in (("requests", "req"), ("limits", "lim"))
                if amounts[short]
            },
        }
        for name, amounts in spec.items()
    ]
    pod = {"metadata": {"namespace": "default", "name": "batch", "uid": "u"}, "spec": {"containers": containers}}
    return share_of(parse_node_pod(pod), limits_cpu is not False)


def _resources(amounts: list[int]) -> dict[str, str]:
    names = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
    return {name: str(amount) for name, amount in zip(names, amounts, strict=True)}


def shares_to_weight(case: Case) -> Verdict:
    text = case["in"]["shares"]
    if not text.isdecimal() or not MIN_SHARES <= int(text) <= MAX_SHARES:
        return not_covered("shares that no kernel has: they are computed here, and not parsed")
    return compare({"weight": weight_of_shares(int(text))}, wanted(case))


def weight_to_shares(case: Case) -> Verdict:
    weight = case["in"]["weight"]
    if not 1 <= weight <= 10_000:
        return not_covered("weights that no kernel has: they are computed here, and not parsed")
    return compare({"shares": shares_of_weight(weight)}, wanted(case))


def systemd_name(case: Case) -> Verdict:
    return compare({"path": f"/{systemd_path(case['in']['name'])}"}, wanted(case))


KOORDLET: Mapping[str, Adaptor] = {
    "batch_pod": batch_pod,
    "batch_container": batch_container,
    "cg2_shares_to_weight": shares_to_weight,
    "cg2_weight_to_shares": weight_to_shares,
}
CRANE: Mapping[str, Adaptor] = {"cgroup_systemd": systemd_name}
