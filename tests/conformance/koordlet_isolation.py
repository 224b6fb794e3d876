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
    shares_of_request,
    shares_of_weight,
    weight_of_shares,
)
from slackwater.apiserver.node_pods import parse_node_pod

_PERIOD_US = 100_000
_ONLY = "only"


def batch_pod(case: Case) -> Verdict:
    given = case["in"]
    if (gap := _gap(given)) is not None:
        return gap
    spec, want = given.get("spec") or {}, wanted(case)
    share = _share(spec, given.get("cfs_quota_enabled"))
    if share is None:
        return _without_amounts(want) if spec else compare({}, want)
    limit = -1 if share.memory_bytes is None else share.memory_bytes
    got = {"cpu_shares": share.shares, "cfs_quota": _quota(share), "memory_limit": limit}
    verdict = compare(got, want)
    if verdict.word == "FAIL" and any(not amounts.get("req") for amounts in spec.values()):
        least = {**got, "cpu_shares": sum(_least(amounts) for amounts in spec.values())}
        return differ("limit-is-request") if compare(least, want).word == "pass" else verdict
    return verdict


def _least(amounts: Mapping[str, Any]) -> int:
    """The shares of a container by its request alone, as the peer counts them."""
    return shares_of_request(amounts["req"][0]) if amounts.get("req") else MIN_SHARES


def _without_amounts(want: Mapping[str, Any]) -> Verdict:
    """A pod that asks for nothing is left as it is; the peer gives it the least shares and no limits."""
    least = {"cpu_shares": MIN_SHARES, "cfs_quota": -1, "memory_limit": -1}
    is_left = want == {} or {name: want[name] for name in least if name in want} == dict(want) == least
    return (differ("limit-is-request") if want else Verdict("pass")) if is_left else compare(least, want)


def batch_container(case: Case) -> Verdict:
    """The pod's quota bounds its containers, so that theirs are not written."""
    given, want = case["in"], wanted(case)
    if (gap := _gap(given)) is not None:
        return gap
    spec = given.get("spec")
    share = _share({_ONLY: spec} if spec else {}, given.get("cfs_quota_enabled"))
    if share is None:
        return _without_amounts(want) if spec else compare({}, want)
    if not spec.get("req"):
        return differ("limit-is-request")
    one, quota = share.containers[_ONLY], _quota(share)
    limit = -1 if one.memory_bytes is None else one.memory_bytes
    seen = compare({"cpu_shares": one.shares, "cfs_quota": quota, "memory_limit": limit}, want)
    return seen if seen.word == "FAIL" or quota == -1 else differ("quota-of-the-pod")


def _quota(share: PodShare) -> int:
    """In a period of 100 ms; -1: unlimited."""
    return -1 if share.cpu_milli is None else quota_us(share.cpu_milli, _PERIOD_US)


def _gap(given: Mapping[str, Any]) -> Verdict | None:
    """What is not built."""
    if "context" in given:
        return not_covered("a hook's request without content: there are no hooks")
    if (given.get("ratio") or -1) > 1:
        return not_covered("CPU normalization, which no issue asks for")
    return None


def _share(spec: Mapping[str, Any], limits_cpu: bool | None) -> PodShare | None:
    """The share of a pod whose containers ask for the peer's batch resources."""
    containers = [
        {
            "name": name,
            "resources": {
                part: _resources(amounts[short])
                for part, short in (("requests", "req"), ("limits", "lim"))
                if amounts.get(short)
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
