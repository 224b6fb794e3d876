"""What pods of high tiers hold of a node, and why it is not simply their usage.

By the policy `usage` a pod is counted with

* its request, for the CPU of LSE pods: they own their cores, used or not (more, if it is measured to use more);
* the larger of current p95 and predicted peak, once its model is not cold: usage alone offers at night what prod
  takes back in the morning, prediction alone ignores what is happening now;
* the larger of current p95 and its request while the model is cold or there is none: nothing is known about its
  peak, so nothing of its request is lent (`cold_start_holds_request` off: usage alone, as the peer does);
* its request when it was not measured; right after it was bound, a share of request (or of usage, if that is more)
  that grows with time, measured or not, so that the offer goes down in steps that batch can follow and does not fall
  off a cliff;
* its usage alone when nobody lists it as a pod of the node: somebody uses it.

By the policy `request` it is counted with its request, by `maxUsageRequest` with the larger of both. Where the peak of
all of prod together is predicted, it stands in for the sum of its pods' peaks: not all of them peak at once. The part
of it that cold pods have is a guess (their requests or limits): they are counted as said above instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from math import ceil
from operator import itemgetter

from slackwater.colocation.domain.snapshot import NodeSnapshot, PodUse, amount, tier_of
from slackwater.colocation.domain.strategy import Policy, Strategy
from slackwater.model.records import record


class Basis(StrEnum):
    """By what a pod was counted."""

    OWNED = "request (LSE owns its cores)"
    PREDICTED = "predicted peak"
    USAGE_ABOVE_PREDICTION = "usage (above its predicted peak)"
    COLD_REQUEST = "request (no warm prediction)"
    USAGE = "usage"
    UNMEASURED = "request (not measured)"
    SETTLING = "share of request (just bound)"
    DANGLING = "usage (not in the pod list)"
    REQUESTED = "request (policy)"


INPUT_OF = {
    Basis.OWNED: "requests",
    Basis.PREDICTED: "predicted_peaks",
    Basis.COLD_REQUEST: "requests",
    Basis.UNMEASURED: "requests",
    Basis.SETTLING: "requests",
    Basis.REQUESTED: "requests",
}
"""Which recorded input a tier's term stands on, by what its largest pod was counted by; usage otherwise."""

Held = tuple[int, Basis]
_FIRST = itemgetter(0)


@record(frozen=True, slots=True)
class TierHolds:
    """What a tier holds, how its pods were counted, and which input that stands on."""

    value: int
    note: str
    input: str


def tier_holds(tier: str, resource: str, snapshot: NodeSnapshot, strategy: Strategy, policy: Policy) -> TierHolds:
    """All pods of one high tier."""
    pods = [pod for pod in snapshot.pods if tier_of(pod.tier) == tier]
    held = [_counted(pod, resource, strategy, policy) for pod in pods]
    bases = Counter([basis for _, basis in held])
    note = ", ".join(f"{count} by {basis}" for basis, count in sorted(bases.items())) or "no pods"
    most = max(held, key=_FIRST, default=(0, Basis.USAGE))[1]
    source = f"{tier}_{INPUT_OF.get(most, 'p95')}"
    value = sum([value for value, _ in held])
    if tier != "prod" or snapshot.prod_peak is None or policy is Policy.REQUEST:
        return TierHolds(value, note, source)
    by_use = held if policy is Policy.USAGE else [held_by(pod, resource, strategy) for pod in pods]
    together = _together(resource, amount(snapshot.prod_peak, resource), zip(pods, by_use, strict=True))
    if policy is Policy.MAX_USAGE_REQUEST:
        together = max(together, value)
    return TierHolds(together, f"peak predicted for all of prod; {note}", "prod_predicted_peaks")


def held_by(pod: PodUse, resource: str, strategy: Strategy) -> Held:
    """How much of one resource a pod of a high tier holds by the policy `usage`, and by what it was counted."""
    request = amount(pod.request, resource)
    usage = amount(pod.usage, resource) if pod.usage else 0
    peak = amount(pod.predicted, resource) if pod.predicted else 0
    if not pod.listed:
        return usage, Basis.DANGLING
    if resource == "cpu" and pod.qos == "LSE":
        return max(request, usage), Basis.OWNED
    if pod.predicted and not pod.cold:
        return (usage, Basis.USAGE_ABOVE_PREDICTION) if usage > peak else (peak, Basis.PREDICTED)
    if pod.usage is None:
        return _claimed(pod, max(request, peak), Basis.UNMEASURED, strategy)
    if strategy.cold_start_holds_request:
        claim, basis = _claimed(pod, max(request, peak), Basis.COLD_REQUEST, strategy)
        if claim > usage:
            return claim, basis
    return usage, Basis.USAGE


def requested_by(pods: Iterable[PodUse], resource: str, tier: str) -> int:
    """The sum of requests of one high tier; a pod that nobody lists has none."""
    return sum(amount(pod.request, resource) for pod in pods if pod.listed and tier_of(pod.tier) == tier)


def _counted(pod: PodUse, resource: str, strategy: Strategy, policy: Policy) -> Held:
    if policy is Policy.USAGE:
        return held_by(pod, resource, strategy)
    request = amount(pod.request, resource) if pod.listed else 0
    if policy is Policy.REQUEST:
        return request, Basis.REQUESTED
    held, basis = held_by(pod, resource, strategy)
    return (request, Basis.REQUESTED) if request > held else (held, basis)


def _claimed(pod: PodUse, claim: int, basis: Basis, strategy: Strategy) -> Held:
    since, settle = pod.bound_seconds_ago, strategy.bind_settle_seconds
    if since is None or since >= settle:
        return claim, basis
    return ceil(claim * max(0.0, since) / settle), Basis.SETTLING


def _together(resource: str, peak: int, pods: Iterable[tuple[PodUse, Held]]) -> int:
    """The common peak of those that are known, or what they use now if that is more; each of the others for itself, and
    what LSE pods own beyond their part of it."""
    used = alone = owned = 0
    for pod, (held, _) in pods:
        if pod.predicted is None or pod.cold:
            peak -= amount(pod.predicted, resource) if pod.predicted else 0
            alone += held
            continue
        usage = amount(pod.usage, resource) if pod.usage else 0
        used += usage
        if resource == "cpu" and pod.qos == "LSE":
            owned += max(0, held - max(amount(pod.predicted, resource), usage))
    return max(peak, used) + alone + owned
