"""Computes what pods of high tiers hold of a node.

By the policy `usage` a pod is counted with

* its request, for the CPU of LSE pods: they own their cores, used or not (more, if the measured usage is larger);
* the larger of current p95 and predicted peak, if its model is warm: usage alone offers at night what prod reclaims in
  the morning, and prediction alone ignores current usage;
* the larger of current p95 and its request, if the model is cold or missing: its peak is unknown, so nothing of its
  request is lent (`cold_start_holds_request` off: usage alone, as in the peer);
* its request, if it was not measured, or is a reservation for a pod to come; a newly bound pod, measured or not, with a
  share of its request (or its usage, if larger) that grows with time, so that the offer falls in steps that batch can
  follow;
* its usage alone, if it is measured but not listed as a pod of the node.

By the policy `request` it is counted with its request, by `maxUsageRequest` with the larger of both. A predicted peak
of all of prod together replaces the sum of its pods' peaks, because pods do not all peak at the same time. The part of
it that belongs to cold pods is an assumption (their requests or limits), so these are counted as above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from math import ceil
from operator import itemgetter

from slackwater.model.records import record
from slackwater.offers.kept_room import UID_PREFIX
from slackwater.offers.snapshot import NodeSnapshot, PodInput, amount, tier_of
from slackwater.offers.strategy import CountingPolicy, Strategy


class Basis(StrEnum):
    """The basis on which a pod was counted."""

    OWNED = "request (LSE owns its cores)"
    PREDICTED = "predicted peak"
    USAGE_ABOVE_PREDICTION = "usage (above its predicted peak)"
    COLD_REQUEST = "request (no warm prediction)"
    USAGE = "usage"
    UNMEASURED = "request (not measured)"
    RESERVED = "request (reserved)"
    SETTLING = "share of request (just bound)"
    DANGLING = "usage (not in the pod list)"
    REQUESTED = "request (policy)"


INPUT_OF = {
    Basis.OWNED: "requests",
    Basis.PREDICTED: "predicted_peaks",
    Basis.COLD_REQUEST: "requests",
    Basis.UNMEASURED: "requests",
    Basis.RESERVED: "requests",
    Basis.SETTLING: "requests",
    Basis.REQUESTED: "requests",
}
"""The recorded input of a tier's term, by the basis of its largest pod; usage otherwise."""

Held = tuple[int, Basis]
_FIRST = itemgetter(0)


@record(frozen=True, slots=True)
class TierHolds:
    """What a tier holds, how its pods were counted, and the recorded input."""

    value: int
    note: str
    input: str


def tier_holds(
    tier: str, resource: str, snapshot: NodeSnapshot, strategy: Strategy, policy: CountingPolicy
) -> TierHolds:
    """Returns what all pods of one high tier hold."""
    pods = [pod for pod in snapshot.pods if tier_of(pod.tier) == tier]
    held = [_counted(pod, resource, strategy, policy) for pod in pods]
    bases = Counter([basis for _, basis in held])
    note = ", ".join(f"{count} by {basis}" for basis, count in sorted(bases.items())) or "no pods"
    most = max(held, key=_FIRST, default=(0, Basis.USAGE))[1]
    source = f"{tier}_{INPUT_OF.get(most, 'p95')}"
    value = sum([value for value, _ in held])
    if tier != "prod" or snapshot.prod_peak is None or policy is CountingPolicy.REQUEST:
        return TierHolds(value, note, source)
    by_use = held if policy is CountingPolicy.USAGE else [held_by(pod, resource, strategy) for pod in pods]
    together = _together(resource, amount(snapshot.prod_peak, resource), zip(pods, by_use, strict=True))
    if policy is CountingPolicy.MAX_USAGE_REQUEST:
        together = max(together, value)
    return TierHolds(together, f"predicted peak of all prod pods; {note}", "prod_predicted_peaks")


def held_by(pod: PodInput, resource: str, strategy: Strategy) -> Held:
    """Returns how much of one resource a pod of a high tier holds by the policy `usage`, and the basis."""
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
        basis = Basis.RESERVED if pod.uid.startswith(UID_PREFIX) else Basis.UNMEASURED
        return _claimed(pod, max(request, peak), basis, strategy)
    if strategy.cold_start_holds_request:
        claim, basis = _claimed(pod, max(request, peak), Basis.COLD_REQUEST, strategy)
        if claim > usage:
            return claim, basis
    return usage, Basis.USAGE


def requested_by(pods: Iterable[PodInput], resource: str, tier: str) -> int:
    """Returns the sum of requests of one high tier; a pod that is not listed has none."""
    return sum(amount(pod.request, resource) for pod in pods if pod.listed and tier_of(pod.tier) == tier)


def _counted(pod: PodInput, resource: str, strategy: Strategy, policy: CountingPolicy) -> Held:
    if policy is CountingPolicy.USAGE:
        return held_by(pod, resource, strategy)
    request = amount(pod.request, resource) if pod.listed else 0
    if policy is CountingPolicy.REQUEST:
        return request, Basis.REQUESTED
    held, basis = held_by(pod, resource, strategy)
    return (request, Basis.REQUESTED) if request > held else (held, basis)


def _claimed(pod: PodInput, claim: int, basis: Basis, strategy: Strategy) -> Held:
    since, settle = pod.bound_seconds_ago, strategy.bind_settle_seconds
    if since is None or since >= settle:
        return claim, basis
    return ceil(claim * max(0.0, since) / settle), Basis.SETTLING


def _together(resource: str, peak: int, pods: Iterable[tuple[PodInput, Held]]) -> int:
    """Returns what pods hold with a combined peak: the peak of the known pods, or their usage if larger; each other pod
    on its own; and what LSE pods own beyond their part of the peak.
    """
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
