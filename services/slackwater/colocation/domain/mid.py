"""What mid may use of a node, per resource.

    dynamic: min(Reclaimable, unused) + midUnallocatedPercent of what nobody requested
             Reclaimable = max(0, reclaimRatio x Allocated[Prod] - Peak[Prod])
    static:  midStatic...ReservedPercent of the node
    never above the node's allocatable x mid...ThresholdPercent, nor above the slack of the node

Allocated[Prod] is what prod requested, Peak[Prod] what it is predicted to need: a pod without a warm prediction needs
its request, an LSE pod owns its CPU. Nothing is reclaimable while nothing is predicted, or while the usage of the node
is unknown. The slack (see `batch.slack`) is what all lower tiers may have together. Mid is served first, batch has the
rest, so Σ offers <= max(0, capacity - reserve - what prod is predicted to need) for any strategy.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.colocation.domain.amounts import said
from slackwater.colocation.domain.batch import Computed, compute, reserved_of, slack, system_of
from slackwater.colocation.domain.holding import requested_by, tier_holds
from slackwater.colocation.domain.snapshot import LOWER_TIERS, NodeSnapshot, amount, percent_of, tier_of
from slackwater.colocation.domain.strategy import MidMode, Policy, Strategy
from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Offers:
    """Both offers of one resource, made of one slack: `batch` is what mid left. `mid_share` is what mid may have at
    most in the end, and what batch therefore goes without, even where mid is offered less for now."""

    mid: Computed
    batch: Computed
    mid_share: int


def node_offers(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Offers:
    """Mid first, then batch from what is left."""
    mid, share = mid_offer(resource, snapshot, strategy)
    return Offers(mid, compute(resource, snapshot, strategy, share), share)


def mid_offer(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> tuple[Computed, int]:
    """The offer with signed terms, and the share that batch leaves to it: the offer, before it is cut to what is unused
    at the moment. A burst of anybody takes from mid for a while, but does not hand it to batch."""
    if strategy.mid_mode is MidMode.OFF or not strategy.enabled:
        return Computed(0, 0, (Term(name="off", value=0, note="nothing is offered to mid here", input="enable"),)), 0
    ceiling = percent_of(amount(allocatable_of(snapshot), resource), strategy.mid_threshold(resource))
    bounds = (
        (ceiling, "cap", f"{strategy.mid_threshold(resource)} % of allocatable at most", "mid_threshold"),
        (max(0, slack(resource, snapshot, strategy)), "sold_once", "the node has no more slack than this", "capacity"),
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
    """Allocated[Prod]: the requests of prod's pods."""
    return requested_by(snapshot.pods, resource, "prod")


def prod_needs(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int | None:
    """Peak[Prod], or what prod holds now if that is more. None while nothing of prod is predicted.

    Requests are not lent by guess: a pod without a warm prediction needs all of its request, whatever batch is told
    of it, and from the moment it is bound. A pod that nobody lists needs its usage.
    """
    if snapshot.prod_peak is None and not any(
        pod.predicted is not None and tier_of(pod.tier) == "prod" for pod in snapshot.pods
    ):
        return None
    return tier_holds("prod", resource, snapshot, without_guesses(strategy), Policy.USAGE).value


def without_guesses(strategy: Strategy) -> Strategy:
    """The same, but who is not predicted holds all of its request, and at once."""
    return replace(strategy, cold_start_holds_request=True, bind_settle_seconds=0.0)


def _reclaimable(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> list[Term]:
    needs = prod_needs(resource, snapshot, strategy)
    if needs is None:
        return [Term(name="reclaimable", value=0, note="nothing is predicted for prod", input="prod_predicted_peaks")]
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
        note = "prod needs all that it requested"
        terms.append(Term(name="floor", value=needs - allocated, note=note, input="prod_requests"))
    return terms


def _unused(resource: str, snapshot: NodeSnapshot) -> int:
    """Of the capacity; 0 where the usage of the whole node is not known."""
    if snapshot.node_usage is None:
        return 0
    return max(0, amount(snapshot.capacity, resource) - amount(snapshot.node_usage, resource))


def _cut_to_unused(terms: list[Term], unused: int, resource: str) -> None:
    """The reclaimable part alone: what nobody requested is nobody's usage either."""
    reclaimable = sum(term.value for term in terms[:-1])
    if reclaimable > unused:
        note = f"no more than {said(unused, resource)} of the node are unused"
        terms.insert(-1, Term(name="used", value=unused - reclaimable, note=note, input="node_p95"))


def _unallocated(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Term:
    system = system_of(resource, snapshot, LOWER_TIERS | {"mid"})
    free = amount(snapshot.capacity, resource) - max(system, reserved_of(resource, snapshot, strategy))
    left = max(0, free - prod_allocated(resource, snapshot))
    percent = strategy.mid_unallocated_percent
    note = f"{percent} % of {said(left, resource)} that nobody requested"
    return Term(name="unallocated", value=percent_of(left, percent), note=note, input="prod_requests")


def _static(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Term:
    percent = strategy.mid_static(resource)
    value = percent_of(amount(allocatable_of(snapshot), resource), percent)
    return Term(name="static", value=value, note=f"{percent} % of allocatable", input="mid_static")


def allocatable_of(snapshot: NodeSnapshot) -> Resources:
    """What pods can have of the node, before any amplification."""
    return snapshot.allocatable or (snapshot.capacity - snapshot.reserved).at_least_zero()
