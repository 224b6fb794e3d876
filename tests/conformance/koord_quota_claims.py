"""Areas of koord_quota_sched.json about pods that ask for a quota's resources: admission, preemption and its victims.

A pod is a claim, and what the peer decides pod by pod one arbitration decides here. Of a case only the quota, its limit
and the pods are given; the pool has room for everything, so that the quota alone decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.fairshare.arbitration import apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import QuotaSnapshot
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim, ReclaimOrder, ReclaimReason, admit, order_reclaim, start
from slackwater.fairshare.tree import Amounts, Quota, added
from slackwater.koordinator.quota_objects import BUILT_IN
from slackwater.model.errors import Conflict
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_requests import Submission
from slackwater.quota.usecases.arbitrate_tree import ATTEMPTS

_NOW_S: Final = 100.0
_ALL: Final = {"cpu": 1000}
"""What a quota may use in cases that give no amounts: one claim of it."""
_NEVER: Final = "preemptionPolicy of a pod: whether claims preempt is one setting, and no issue asks for one of a claim"


def _own(quota: str) -> str:
    return BUILT_IN.get(quota, quota)


def _claim(name: str, pod: Mapping[str, Any], request: Amounts) -> QuotaClaim:
    bound = pod.get("non_preemptible", False)
    return QuotaClaim(name, _own(pod["quota"]), Tier.PROD, request, 0.0, pod["priority"], bound)


def _running(claim: QuotaClaim) -> QuotaClaim:
    return start(admit(claim, claim.request, 0.0), 0.0)


def _victims(claims: Sequence[QuotaClaim], limits: Mapping[str, Amounts]) -> list[str]:
    """Returns what one arbitration orders to end. A claim that cannot be reclaimed stands within the min: the limit."""
    bound = {claim.quota for claim in claims if claim.non_preemptible}
    quotas = [Quota(name, minimum=most if name in bound else {}, maximum=most) for name, most in limits.items()]
    total = added(*limits.values(), *(claim.request for claim in claims))
    return [order.victim for order in arbitrate(QuotaSnapshot(quotas, {"": total}, claims), _NOW_S).reclaims]


def can_preempt(case: Case) -> Verdict:
    """The victim holds all that its quota may use, so that the preemptor needs it to end."""
    given, want = case["given"], wanted(case)["can_preempt"]
    preemptor, victim = (_claim(name, given[name], _ALL) for name in ("preemptor", "victim"))
    limits = {preemptor.quota: _ALL, victim.quota: _ALL}
    got = _victims([preemptor, _running(victim)], limits) == ["victim"]
    of_default = victim.quota == BUILT_IN["koordinator-default-quota"]
    if got and not want and of_default and given["disable_default_quota_preemption"]:
        return differ("quota-default-preempts")
    return compare(got, want)


def is_eligible(case: Case) -> Verdict:
    """A claim with a nominated node is one for which resources are reclaimed; a pod that terminates is one of those.

    One claim runs that may be preempted: the preemptor is eligible if it is ordered to end.
    """
    given, want = case["given"], wanted(case)["eligible"]
    if given.get("preemption_policy") == "Never":
        return not_covered(_NEVER)
    pod = {"quota": given["quota"], "priority": given["priority"]}
    preemptor = replace(_claim("preemptor", pod, _ALL), reserved=given["nominated"])
    ending = [
        _ending(_running(_claim(f"ending-{number}", each, _ALL)), preemptor)
        for number, each in enumerate(given["terminating_pods_on_node"])
    ]
    lower = _running(_claim("lower", {**pod, "priority": pod["priority"] - 1}, _ALL))
    limits = {claim.quota: _ALL for claim in ending} | {
        preemptor.quota: added(_ALL, *(claim.request for claim in ending if claim.quota == preemptor.quota))
    }
    got = _victims([preemptor, lower, *ending], limits) == ["lower"]
    return differ("quota-waits-for-endings") if want and not got and ending else compare(got, want)


def _ending(victim: QuotaClaim, claim: QuotaClaim) -> QuotaClaim:
    order = ReclaimOrder(ReclaimReason.HIGHER_PRIORITY, 0.0, _NOW_S + 30.0, claim.quota, claim.id)
    return order_reclaim(victim, order)


def select_victims(case: Case) -> Verdict:
    """The quota's use beyond the pods of the node is on other nodes. There are no disruption budgets in the cases, and
    a status says only whether there is a victim."""
    given, want = case["given"], wanted(case)
    preemptor = _claim("preemptor", given["preemptor"], given["preemptor"]["request"])
    pods = [_running(_claim(f"pod-{number}", pod, pod["request"])) for number, pod in enumerate(given["pods_on_node"])]
    held = added(*(pod.request for pod in pods if pod.quota == preemptor.quota))
    elsewhere = {key: amount - held.get(key, 0) for key, amount in given["quota_used"].items()}
    if any(amount > 0 for amount in elsewhere.values()):
        other = replace(preemptor, id="elsewhere", request={key: max(amount, 0) for key, amount in elsewhere.items()})
        pods.append(_running(other))
    limits = {pod.quota: given["quota_limit"] for pod in (preemptor, *pods)}
    verdict = compare(len(_victims([preemptor, *pods], limits)), want["victims"])
    request, limit = preemptor.request, given["quota_limit"]
    if verdict.word == "FAIL" and any(amount > limit[key] for key, amount in request.items() if key in limit):
        enough = {key: max(amount, request.get(key, 0)) for key, amount in limit.items()}
        found = _victims([preemptor, *pods], dict.fromkeys(limits, enough))
        return differ("quota-preempts-to-fit") if len(found) == want["victims"] else verdict
    return verdict


def admission(case: Case) -> Verdict:
    """The quota shows what its max names. What has ended asks for nothing."""
    given, want = case["given"], wanted(case)
    used = _running(QuotaClaim("used", "q", Tier.PROD, given["child_request"], 0.0))
    pod = QuotaClaim("pod", "q", Tier.PROD, given["request"], 0.0)
    if given["operation"] == "UPDATE":
        return _update(used, given, want)
    asked = [pod] if given["operation"] == "CREATE" else []
    verdict = compare(_after([used, *asked], given["max"]), want)
    limit = given.get("admission_annotation")
    if verdict.word == "FAIL" and limit:
        return differ("quota-admits-within-max") if _after([used, *asked], limit) == want else verdict
    return verdict


def _after(claims: Sequence[QuotaClaim], most: Amounts) -> dict[str, Any]:
    """Returns whether the claims all hold after an arbitration, and what the quota then uses."""
    total = added(*(claim.request for claim in claims))
    plan = arbitrate(QuotaSnapshot([Quota("q", maximum=most)], {"": total}, claims), _NOW_S)
    by_id = {claim.id: claim for claim in claims}
    index = ClaimIndex([*(by_id | apply_plan(plan, by_id, _NOW_S)).values()])
    used = {key: amount for key, amount in index.used.get("q", {}).items() if key in most and amount}
    return {"allow": len(index.holding.get("q", {})) == len(claims), "child_request_after": used}


def _update(used: QuotaClaim, given: Mapping[str, Any], want: Mapping[str, Any]) -> Verdict:
    """The same claim with another request, in the peer one more."""
    changed = replace(used, request=given["request"])
    try:
        Submission(changed).applied(used, _NOW_S)
        allowed = True
    except Conflict:
        allowed = False
    if want["allow"] and not allowed:
        return differ("quota-claims-do-not-change")
    return compare({"allow": allowed, "child_request_after": dict(used.holds)}, want)


def retries(case: Case) -> Verdict:
    batch, most = case["given"]["batch"], case["given"]["max_retries"]
    want = wanted(case)["retries"]
    peers = max(min(3 + max(batch, 1).bit_length() - 1, most), 3)
    return differ("quota-retries") if ATTEMPTS != want == peers else compare(ATTEMPTS, want)


ADAPTORS: Mapping[str, Adaptor] = {
    "quota.can_preempt": can_preempt,
    "quota.preempt_eligible": is_eligible,
    "quota.select_victims": select_victims,
    "quota.admission": admission,
    "quota.admission_retries": retries,
}
