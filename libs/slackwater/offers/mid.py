"""Computes the mid offer of a node, per resource.

    dynamic: min(Reclaimable, unused) + midUnallocatedPercent of the unrequested resources
             Reclaimable = max(0, reclaimRatio x Allocated[Prod] - Peak[Prod])
    static:  midStatic...ReservedPercent of the node
    at most the node's allocatable x mid...ThresholdPercent, and at most the slack of the node

Allocated[Prod] is the sum of prod's requests, Peak[Prod] its predicted need: a pod without a warm prediction needs its
request, an LSE pod owns its CPU. Nothing is reclaimable without predictions, or while the usage of the node is unknown.
The slack (see `batch.slack`) is the maximum of all lower tiers together. Mid is served first and batch gets the rest,
so Σ offers <= max(0, capacity - reserve - what prod is predicted to need) under any strategy.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.amount_text import amount_text
from slackwater.offers.batch import Computed, compute, reserved_of, slack, system_of
from slackwater.offers.snapshot import LOWER_TIERS, NodeSnapshot, amount, percent_of, tier_of
from slackwater.offers.strategy import CountingPolicy, MidMode, Strategy
from slackwater.offers.tier_holdings import requested_by, tier_holds


@record(frozen=True, slots=True)
class NodeOffers:
    """Both offers of one resource, taken from one slack. `mid_share` is the maximum that mid may get, which batch
    leaves to mid even while less is offered to mid.
    """

    mid: Computed
    batch: Computed
    mid_share: int


def node_offers(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> NodeOffers:
    """Returns the mid offer, and the batch offer from the rest."""
    mid, share = mid_offer(resource, snapshot, strategy)
    return NodeOffers(mid, compute(resource, snapshot, strategy, share), share)


def mid_offer(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> tuple[Computed, int]:
    """Returns the offer with signed terms, and the share that batch leaves to mid.

    The share is the offer before it is cut to the unused part of the node: a temporary burst of usage lowers the mid
    offer but does not move it to batch.
    """
    if strategy.mid_mode is MidMode.OFF or not strategy.enabled:
        return Computed(
            0, 0, (Term(name="off", value=0, note="nothing is offered to mid on this node", input="enable"),)
        ), 0
    ceiling = percent_of(amount(allocatable_of(snapshot), resource), strategy.mid_threshold(resource))
    bounds = (
        (ceiling, "cap", f"at most {strategy.mid_threshold(resource)} % of allocatable", "mid_threshold"),
        (max(0, slack(resource, snapshot, strategy)), "sold_once", "at most the slack of the node", "capacity"),
    )
    if strategy.mid_mode is MidMode.STATIC:
        terms = [_static(resource, snapshot, strategy)]
    else:
        terms = [*_reclaimable(resource, snapshot, strategy), _unallocated(resource, snapshot, strategy)]
    share = min(sum(term.value for term in terms), *(most for most, *_ in bounds))
    if strategy.mid_mode is MidMode.DYNAMIC:
        _cut_to_unused(terms, _unused(resource, snapshot), resource)
    for most, name, note, source in bounds:
        over = sum(term.value for term in terms) - most
        if over > 0:
            terms.append(Term(name=name, value=-over, note=note, input=source))
    return Computed(sum(term.value for term in terms), ceiling, tuple(terms)), share


def prod_allocated(resource: str, snapshot: NodeSnapshot) -> int:
    """Returns Allocated[Prod]: the requests of prod's pods."""
    return requested_by(snapshot.pods, resource, "prod")


def prod_needs(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int | None:
    """Returns Peak[Prod], or what prod holds now if that is larger. None if nothing of prod is predicted.

    Requests are lent only on a warm prediction: a pod without one needs its whole request from the moment it is bound,
    whatever the policy of batch says. A pod that is not listed needs its usage.
    """
    if snapshot.prod_peak is None and not any(
        pod.predicted is not None and tier_of(pod.tier) == "prod" for pod in snapshot.pods
    ):
        return None
    return tier_holds("prod", resource, snapshot, without_guesses(strategy), CountingPolicy.USAGE).value


def without_guesses(strategy: Strategy) -> Strategy:
    """Returns the strategy with pods without a prediction holding their whole request at once."""
    return replace(strategy, cold_start_holds_request=True, bind_settle_seconds=0.0)


def _reclaimable(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> list[Term]:
    needs = prod_needs(resource, snapshot, strategy)
    if needs is None:
        return [Term(name="reclaimable", value=0, note="prod has no predictions", input="prod_predicted_peaks")]
    allocated = percent_of(prod_allocated(resource, snapshot), strategy.mid_reclaim_ratio_percent)
    terms = [
        Term(
            name="prod_allocated",
            value=allocated,
            note=f"{strategy.mid_reclaim_ratio_percent} % of requests",
            input="prod_requests",
        ),
        Term(name="prod_peak", value=-needs, note="what prod is predicted to need", input="prod_predicted_peaks"),
    ]
    if needs > allocated:
        note = "prod needs all of its requests"
        terms.append(Term(name="floor", value=needs - allocated, note=note, input="prod_requests"))
    return terms


def _unused(resource: str, snapshot: NodeSnapshot) -> int:
    """Returns the unused part of the capacity; 0 if the usage of the whole node is unknown."""
    if snapshot.node_usage is None:
        return 0
    return max(0, amount(snapshot.capacity, resource) - amount(snapshot.node_usage, resource))


def _cut_to_unused(terms: list[Term], unused: int, resource: str) -> None:
    """Cuts the reclaimable part only, because unrequested resources are not in use."""
    reclaimable = sum(term.value for term in terms[:-1])
    if reclaimable > unused:
        note = f"only {amount_text(unused, resource)} of the node are unused"
        terms.insert(-1, Term(name="used", value=unused - reclaimable, note=note, input="node_p95"))


def _unallocated(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Term:
    system = system_of(resource, snapshot, LOWER_TIERS | {"mid"})
    free = amount(snapshot.capacity, resource) - max(system, reserved_of(resource, snapshot, strategy))
    left = max(0, free - prod_allocated(resource, snapshot))
    percent = strategy.mid_unallocated_percent
    note = f"{percent} % of the unrequested {amount_text(left, resource)}"
    return Term(name="unallocated", value=percent_of(left, percent), note=note, input="prod_requests")


def _static(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Term:
    percent = strategy.mid_static(resource)
    value = percent_of(amount(allocatable_of(snapshot), resource), percent)
    return Term(name="static", value=value, note=f"{percent} % of allocatable", input="mid_static")


def allocatable_of(snapshot: NodeSnapshot) -> Resources:
    """Returns what pods can use of the node, before any amplification."""
    return snapshot.allocatable or (snapshot.capacity - snapshot.reserved).at_least_zero()
