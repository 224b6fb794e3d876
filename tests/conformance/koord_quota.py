"""Areas `quota.*` of koord_quota_sched.json that are pure formulas: sharing, min scaling, admission, reclaim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.fairshare.admission import QuotaLimit
from slackwater.fairshare.arbitration import arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationPlan, ArbitrationSettings, QuotaSnapshot
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim, admit, start
from slackwater.fairshare.level_share import Sharer, share
from slackwater.fairshare.min_scaling import ScaledChild, scale_mins
from slackwater.fairshare.tree import ROOT, Amounts, Quota, added, limited, path_to_root
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.tree_state import TreeState
from slackwater.fairshare.validation import QuotaRefusal, QuotaRule, refusals
from slackwater.model.tiers import Tier

_ENDLESS: Final = 2**62


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
    keys, request, elastic = given["quota_max_keys"], given["pod_request"], given["enable_runtime_quota"]
    limit = given["runtime"] if elastic else given["max"]
    idle = [key for key in keys if not request.get(key) and given["used"].get(key, 0) > limit.get(key, _ENDLESS)]
    if idle and want["status"] != "Success":
        return differ("quota-asked-dimensions")
    quota = Quota("q", maximum={key: given["max"].get(key, _ENDLESS) for key in keys})
    used = {key: amount for key, amount in given["used"].items() if amount > 0}
    claims = [_admitted("used", used)] if used else []
    total = {key: given["runtime"].get(key, _ENDLESS) for key in keys} if elastic else {}
    return _compare_admission(quota, claims, _queued(request), total, want)


def prefilter_non_preemptible(case: Case) -> Verdict:
    given, pod = case["given"], case["given"]["pod"]
    quota = Quota("q", maximum=given["quota"]["max"], minimum=given["quota"]["min"])
    claims = [
        replace(_admitted(f"p{number}", each["request"]), non_preemptible=each["non_preemptible"])
        for number, each in enumerate(given["running_pods"])
    ]
    waiting = replace(_queued(pod["request"]), non_preemptible=pod["non_preemptible"])
    want = wanted(case)
    told = QuotaLimit.MIN if "non-preemptible" in want.get("reason", "") else QuotaLimit.TOTAL
    return _compare_admission(quota, claims, waiting, given["cluster_total"], want, told)


def _compare_admission(
    quota: Quota,
    claims: Sequence[QuotaClaim],
    waiting: QuotaClaim,
    total: Amounts,
    want: Mapping[str, Any],
    told: QuotaLimit | None = None,
) -> Verdict:
    """What an arbitration of one quota says of one claim; `told` None: by any limit."""
    plan = _arbitrated(quota, [*claims, waiting], total)
    state = TreeState(TreeLayout([quota]), ClaimIndex([*claims, waiting]), _pool(total, [*claims, waiting]))
    named = state.now.excesses("q", waiting.request)
    named += state.min_excesses(waiting, waiting.request) if waiting.non_preemptible else []
    got: dict[str, Any] = {"status": "Success" if plan.admissions else "Unschedulable"}
    if "exceed" in want:
        got["exceed"] = sorted({one.resource for one in named if told in (None, one.limit)})
    return compare(got, {key: want[key] for key in got})


def revoke(case: Case) -> Verdict:
    """A pool that has what the peer gives as runtime. All are told in one plan, so the order says nothing."""
    given = case["given"]
    claims = [
        replace(
            _admitted(pod["name"], pod["request"]),
            priority=pod["priority"],
            non_preemptible=pod.get("non_preemptible", False),
        )
        for pod in given["pods"]
    ]
    quota, runtime = Quota("q", maximum=dict.fromkeys(given["runtime"], _ENDLESS)), given["runtime"]
    ended = {each.victim for each in _arbitrated(quota, claims, runtime).reclaims}
    want = set(wanted(case)["revoke_in_order"])
    fixed = added(*(claim.request for claim in claims if claim.non_preemptible))
    is_in_vain = any(amount > max(runtime.get(key, _ENDLESS), 0) for key, amount in fixed.items())
    if ended < want and is_in_vain:
        return differ("quota-revokes-what-helps")
    return compare(sorted(ended), sorted(want))


def overuse_monitor(case: Case) -> Verdict:
    """Steps tell the seconds since the one before; a `set_delay` counts from then on."""
    given, now_s, wrong = case["given"], 0.0, []
    delay_s, over_since_s = given["delay_evict_seconds"], dict[str, float]()
    quota = Quota("q", maximum=dict.fromkeys(given["runtime"], _ENDLESS))
    for number, step in enumerate(case["steps"]):
        delay_s = step.get("set_delay", delay_s)
        now_s += step["elapsed"]
        used = {key: amount for key, amount in step["used"].items() if amount > 0}
        claims = [_admitted("used", used)] if used else []
        plan = _arbitrated(quota, claims, given["runtime"], now_s, delay_s, over_since_s)
        over_since_s = dict(plan.over_since_s)
        if bool(plan.reclaims) != step["trigger"]:
            wrong.append(number)
    return compare(wrong, [])


def _arbitrated(
    quota: Quota,
    claims: Sequence[QuotaClaim],
    total: Amounts,
    now_s: float = 0.0,
    delay_s: float = 0.0,
    over_since_s: Mapping[str, float] = MappingProxyType({}),
) -> ArbitrationPlan:
    """The plan for one quota, alone in a pool; a resource that `total` does not name is no limit."""
    settings, pool = ArbitrationSettings(reclaim_delay_s=delay_s), {"": _pool(total, claims)}
    return arbitrate(QuotaSnapshot([quota], pool, claims, settings, over_since_s=over_since_s), now_s)


def _pool(total: Amounts, claims: Sequence[QuotaClaim]) -> Amounts:
    asked = {key for claim in claims for key in claim.request}
    return {key: max(total.get(key, _ENDLESS), 0) for key in asked | set(total)}


def _queued(request: Amounts) -> QuotaClaim:
    return QuotaClaim("asked", "q", Tier.BATCH, request, 0.0)


def _admitted(name: str, request: Amounts) -> QuotaClaim:
    return start(admit(QuotaClaim(name, "q", Tier.BATCH, request, 0.0), request, 0.0), 0.0)


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
        allowed = not any(refusal.rule is rule for refusal in _beside(given))
        if rule is QuotaRule.KEYS and allowed and not want["allow"] and not given["gate_update_resource_key"]:
            return differ("quota-keys-subset")
        return compare(allowed, want["allow"])

    return adaptor


def _beside(given: Mapping[str, Any]) -> list[QuotaRefusal]:
    around = [quota_of_case(given[name]) for name in ("parent", "child", "sibling", "tree_root") if name in given]
    return refusals({quota.name: quota for quota in around}, quota_of_case(given["quota"]), {})


def guarantees(case: Case) -> Verdict:
    """The peer's guaranteed amounts are what quotas use, or their mins; ours are declared, and at most the min."""
    want = wanted(case)["allow"]
    allowed = not any(refusal.rule is QuotaRule.GUARANTEED_WITHIN_MIN for refusal in _beside(case["given"]))
    return compare(allowed, want) if allowed == want else differ("quota-guarantees-fit")


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
