"""Areas `quota.*` of koord_quota_sched.json that are pure formulas: sharing, min scaling, admission, reclaim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.fairshare.admission import QuotaAccount, QuotaLimit, excesses
from slackwater.fairshare.level_share import Sharer, share
from slackwater.fairshare.min_scaling import ScaledChild, scale_mins
from slackwater.fairshare.overuse import Overuse
from slackwater.fairshare.reclaim import AdmittedClaim, over_used, to_reclaim
from slackwater.fairshare.tree import ROOT, Quota, added, limited, path_to_root
from slackwater.fairshare.validation import QuotaRule, refusals


def redistribute(case: Case) -> Verdict:
    want = wanted(case)
    got = {}
    for resource, level in case["given"]["dims"].items():
        runtime = share(level["total"], [_sharer(node) for node in level["nodes"]]).runtime
        got[resource] = {name: runtime[name] for name in want.get(resource, {})}
    return compare(got, want)


def _sharer(node: Mapping[str, Any]) -> Sharer:
    return Sharer(
        name=node["name"],
        minimum=node["min"],
        request=node["request"],
        weight=node["weight"],
        lends=node.get("lend", True),
        guaranteed=node.get("guarantee", 0),
    )


def limit_request(case: Case) -> Verdict:
    given = case["given"]
    return compare({"limited": limited(given["request"], given["max"])}, wanted(case))


def add_nonneg(case: Case) -> Verdict:
    """Nothing here is kept by deltas: demand is summed anew, so a removal leaves the sum of what remains."""
    given = case["given"]
    got = {
        name: {key: max(amount, 0) for key, amount in added(given[name], given["delta"]).items()}
        for name in ("request", "used")
    }
    return compare(got, wanted(case))


def masked_runtime(case: Case) -> Verdict:
    given = case["given"]
    return compare(
        {"runtime": {key: given["runtime"][key] for key in given["max"] if key in given["runtime"]}}, wanted(case)
    )


def shared_weight(case: Case) -> Verdict:
    given = case["given"]
    quota = Quota("q", maximum=given["max"], weight=given["annotation"] or {})
    return compare({"weight": dict(quota.shared_weight)}, wanted(case))


def min_scale(case: Case) -> Verdict:
    given, want = case["given"], wanted(case)
    children = [ScaledChild(child["name"], child["min"], child["scale"]) for child in given["children"]]
    if given["child"] not in {child.name for child in children}:
        return not_covered("a child that the parent does not have")
    minimum = scale_mins(given["parent_total"], children)[given["child"]]
    if want["min"] is None:
        own = next(child["min"] for child in given["children"] if child["name"] == given["child"])
        return compare(minimum, own)
    return compare(minimum, want["min"])


def path(case: Case) -> Verdict:
    given = case["given"]
    return compare({"path": list(path_to_root(given["parents"], given["quota"]))}, wanted(case))


def prefilter(case: Case) -> Verdict:
    given, want = case["given"], wanted(case)
    keys = given["quota_max_keys"]
    account = QuotaAccount(
        quota=given["quota"],
        used=given["used"],
        runtime={key: amount for key, amount in given["runtime"].items() if key in keys},
        maximum={key: given["max"].get(key, 2**62) for key in keys},
        minimum={},
        non_preemptible_used={},
    )
    found = excesses(given["pod_request"], [account], elastic=given["enable_runtime_quota"])
    limit = given["runtime"] if given["enable_runtime_quota"] else given["max"]
    idle = [
        key for key in keys if not given["pod_request"].get(key) and given["used"].get(key, 0) > limit.get(key, 2**62)
    ]
    if idle and wanted(case)["status"] != "Success":
        return differ("quota-asked-dimensions")
    got: dict[str, Any] = {"status": "Unschedulable" if found else "Success"}
    if "exceed" in want:
        got["exceed"] = sorted({excess.resource for excess in found})
    return compare(got, {key: want[key] for key in got})


def prefilter_non_preemptible(case: Case) -> Verdict:
    given, want = case["given"], wanted(case)
    pods = given["running_pods"]
    fixed = [pod["request"] for pod in pods if pod["non_preemptible"]]
    account = QuotaAccount(
        quota="q",
        used=added(*(pod["request"] for pod in pods)),
        runtime=given["cluster_total"],
        maximum=given["quota"]["max"],
        minimum=given["quota"]["min"],
        non_preemptible_used=added(*fixed),
    )
    pod = given["pod"]
    found = excesses(pod["request"], [account], non_preemptible=pod["non_preemptible"])
    got: dict[str, Any] = {"status": "Unschedulable" if found else "Success"}
    if "exceed" in want:
        told = QuotaLimit.MIN if "non-preemptible" in want.get("reason", "") else QuotaLimit.RUNTIME
        got["exceed"] = sorted({one.resource for one in found if one.limit is told})
    return compare(got, {key: want[key] for key in got})


def revoke(case: Case) -> Verdict:
    given = case["given"]
    claims = [
        AdmittedClaim(
            id=pod["name"],
            request=pod["request"],
            priority=pod["priority"],
            non_preemptible=pod.get("non_preemptible", False),
        )
        for pod in given["pods"]
    ]
    return compare({"revoke_in_order": [claim.id for claim in to_reclaim(claims, given["runtime"])]}, wanted(case))


def overuse_monitor(case: Case) -> Verdict:
    """Steps tell the seconds since the one before; a `set_delay` counts from then on."""
    clock, now, delay, wrong = Overuse(0.0), 0.0, case["given"]["delay_evict_seconds"], []
    for number, step in enumerate(case["steps"]):
        delay = step.get("set_delay", delay)
        now += step["elapsed"]
        over = bool(over_used(step["used"], case["given"]["runtime"]))
        clock, due = clock.seen(now, over=over, delay_seconds=delay)
        if due != step["trigger"]:
            wrong.append(number)
    return compare(wrong, [])


def quota_of_case(given: Mapping[str, Any]) -> Quota:
    """A quota as the cases write it, without defaults."""
    return Quota(
        name=given["name"],
        parent=given.get("parent") or ROOT,
        minimum=given.get("min") or {},
        maximum=given.get("max") or {},
        weight=given.get("weight") or {},
        guaranteed=given.get("guaranteed") or {},
        lends=given.get("lend", True),
        is_parent=given.get("is_parent", False),
        tree=given.get("tree_id", ""),
    )


def validate_beside(rule: QuotaRule) -> Adaptor:
    """One rule of a quota beside its parent and its children; the peer tests each of its checks alone."""

    def adaptor(case: Case) -> Verdict:
        given, want = case["given"], wanted(case)
        around = [quota_of_case(given[name]) for name in ("parent", "child", "sibling", "tree_root") if name in given]
        found = refusals({quota.name: quota for quota in around}, quota_of_case(given["quota"]), {})
        allowed = not any(refusal.rule is rule for refusal in found)
        if rule is QuotaRule.KEYS and allowed and not want["allow"] and not given["gate_update_resource_key"]:
            return differ("quota-keys-subset")
        return compare(allowed, want["allow"])

    return adaptor


def guarantees(case: Case) -> Verdict:
    """The peer's guaranteed amounts are what quotas use, or their mins; ours are declared."""
    given, want = case["given"], wanted(case)["allow"]
    verdict = validate_beside(QuotaRule.GUARANTEED_SUM)(case)
    quota = quota_of_case(given["quota"])
    is_unchecked = all(amount <= quota.guaranteed.get(key, 0) for key, amount in quota.minimum.items())
    return differ("quota-guarantees-fit") if verdict.word == "FAIL" and want and is_unchecked else verdict


def validate_tree(case: Case) -> Verdict:
    given = case["given"]
    parent = Quota("parent", is_parent=True, tree=given["parent_tree"])
    own = Quota("own", parent="parent", is_parent=True, tree=given["self_tree"])
    child = Quota("child", parent="own", tree=given["child_tree"])
    found = refusals({"parent": parent, "child": child}, own, {})
    return compare(not any(refusal.rule is QuotaRule.TREE for refusal in found), wanted(case)["allow"])


def validate_parent(case: Case) -> Verdict:
    given = case["given"]
    there = [Quota(given["parent"], is_parent=given.get("parent_is_parent", False))] if given["parent_exists"] else []
    found = refusals({quota.name: quota for quota in there}, Quota(given["quota"], parent=given["parent"]), {})
    return compare(not found, wanted(case)["allow"])


ADAPTORS: Mapping[str, Adaptor] = {
    "quota.redistribute": redistribute,
    "quota.limit_request": limit_request,
    "quota.add_nonneg": add_nonneg,
    "quota.masked_runtime": masked_runtime,
    "quota.shared_weight": shared_weight,
    "quota.min_scale": min_scale,
    "quota.path": path,
    "quota.prefilter": prefilter,
    "quota.prefilter_np": prefilter_non_preemptible,
    "quota.revoke": revoke,
    "quota.webhook.keys": validate_beside(QuotaRule.KEYS),
    "quota.webhook.min_sum": validate_beside(QuotaRule.MIN_SUM),
    "quota.webhook.guarantee": guarantees,
    "quota.webhook.tree_id": validate_tree,
    "quota.webhook.parent": validate_parent,
    "quota.overuse_monitor": overuse_monitor,
}
