"""Computes the batch offer of a node, per resource.

    offered = max(0, capacity - margin - max(system + host applications, reserved) - prod - mid)
              host applications of prod and mid; those of batch and free use the offer, as pods of these tiers do
    margin  = trunc(capacity x (100 - reclaim threshold) / 100)         a threshold above 100 % over-commits

`tier_holdings` computes what prod and mid hold, by one of three policies; `request` uses requests only and no system
usage. Under every policy nothing is lent twice: what was offered to mid is not offered to batch, and what prod uses or
is predicted to use is not offered at all (see `slack`). In cap mode the margin is not subtracted; the reclaim
threshold is then the maximum offer. `batch_*_threshold_percent` caps in both modes.

Missing system usage is never zero. The last known value is used, and before the first one the reservation alone, which
the offer declares as degraded.
"""

from __future__ import annotations

from slackwater.decisions.record import Term
from slackwater.model.records import record
from slackwater.offers.amount_text import amount_text
from slackwater.offers.reservation import safety_margin
from slackwater.offers.snapshot import LOWER_TIERS, NodeSnapshot, amount, percent_of
from slackwater.offers.strategy import CountingPolicy, MarginMode, Strategy
from slackwater.offers.tier_holdings import TierHolds, requested_by, tier_holds

_NAMED = 3
_ONCE = "requests leave more than prod's usage and mid's offer"


@record(frozen=True, slots=True)
class Computed:
    """An offer of one resource before gating. `ceiling` is capacity - margin - reserved within caps, never negative."""

    offered: int
    ceiling: int
    terms: tuple[Term, ...]


@record(frozen=True, slots=True)
class BatchOffer:
    """The batch offer of one node, for both resources."""

    cpu: Computed
    memory: Computed


def batch_offer(snapshot: NodeSnapshot, strategy: Strategy) -> BatchOffer:
    """Returns the offer for these inputs, before ageing and gating."""
    return BatchOffer(compute("cpu", snapshot, strategy), compute("memory", snapshot, strategy))


def compute(resource: str, snapshot: NodeSnapshot, strategy: Strategy, mid_offered: int = 0) -> Computed:
    """Returns the offer of one resource with signed terms that add up to it.

    `mid_offered` is mid's offer at the same time.
    """
    if not strategy.enabled:
        whole = amount(snapshot.capacity, resource)
        off = Term(name="disabled", value=-whole, note="colocation is disabled for this node", input="enable")
        return Computed(0, 0, (Term(name="capacity", value=whole), off))
    policy = strategy.policy(resource)
    reserved = reserved_of(resource, snapshot, strategy)
    mid = tier_holds("mid", resource, snapshot, strategy, policy)
    terms = [
        Term(name="capacity", value=amount(snapshot.capacity, resource)),
        *_margin(resource, snapshot, strategy),
        *_kept_back(resource, snapshot, reserved, policy),
        _term("prod", tier_holds("prod", resource, snapshot, strategy, policy)),
        _term("mid", mid)
        if mid.value >= mid_offered or policy is not CountingPolicy.USAGE
        else _lent_to_mid(mid_offered),
    ]
    if (total := sum(term.value for term in terms)) < 0:
        terms.append(Term(name="floor", value=-total, note="an offer is never negative", input="capacity"))
    if policy is not CountingPolicy.USAGE:
        _limit(terms, _once(resource, snapshot, strategy, mid_offered), "sold_once", _ONCE, "prod_p95")
    for most, note, source in _caps(resource, snapshot, strategy):
        _limit(terms, most, "cap", note, source)
    return Computed(sum(term.value for term in terms), _ceiling(resource, snapshot, strategy, reserved), tuple(terms))


def slack(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int:
    """Returns the maximum of all lower tiers together: capacity - margin - max(system, reserved) - what prod needs.

    May be negative. All offers are taken from it once: their sum exceeds neither it nor, if it is negative, zero.
    """
    reserved = reserved_of(resource, snapshot, strategy)
    margin = sum(term.value for term in _margin(resource, snapshot, strategy))
    prod = tier_holds("prod", resource, snapshot, strategy, CountingPolicy.USAGE).value
    return amount(snapshot.capacity, resource) + margin - max(reserved, system_of(resource, snapshot)) - prod


def request_policy(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int:
    """Returns what the policy `request` alone would leave: requests instead of usage, and no system usage."""
    requested = sum(requested_by(snapshot.pods, resource, tier) for tier in ("prod", "mid"))
    margin = sum(term.value for term in _margin(resource, snapshot, strategy))
    reserved = reserved_of(resource, snapshot, strategy)
    return max(0, amount(snapshot.capacity, resource) + margin - reserved - requested)


def system_is_unknown(snapshot: NodeSnapshot) -> bool:
    """Returns whether the system was never measured, so that only the reservation is subtracted for it."""
    return snapshot.system is None


def _once(resource: str, snapshot: NodeSnapshot, strategy: Strategy, mid_offered: int) -> int:
    mid = tier_holds("mid", resource, snapshot, strategy, CountingPolicy.USAGE).value
    return max(0, slack(resource, snapshot, strategy) - max(mid, mid_offered))


def reserved_of(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int:
    return amount(snapshot.reserved.larger_of(strategy.reserved), resource)


def system_of(resource: str, snapshot: NodeSnapshot, lower: frozenset[str] = LOWER_TIERS) -> int:
    """Returns the usage of the system and of host applications of tiers that are not `lower`.

    Host applications without a known tier count, because no other figure includes their usage.
    """
    return host_apps_of(resource, snapshot, lower) + (amount(snapshot.system, resource) if snapshot.system else 0)


def host_apps_of(resource: str, snapshot: NodeSnapshot, lower: frozenset[str] = LOWER_TIERS) -> int:
    """Returns the combined usage of host applications of tiers that are not `lower`."""
    return sum(amount(app.usage, resource) for app in snapshot.host_apps if app.tier not in lower)


def _margin(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> list[Term]:
    if strategy.margin_mode is MarginMode.CAP:
        return []
    note = f"{100 - strategy.reclaim_threshold(resource)} % of capacity"
    margin = safety_margin(resource, snapshot.capacity, strategy)
    return [Term(name="safety_margin", value=-margin, note=note, input="reclaim_threshold")]


def _kept_back(resource: str, snapshot: NodeSnapshot, reserved: int, policy: CountingPolicy) -> list[Term]:
    """Returns the reservation as a term, or the usage of system and host applications as one term each."""
    source = "reserved_by_node" if reserved == amount(snapshot.reserved, resource) else "reserved_by_strategy"
    system = system_of(resource, snapshot)
    if policy is CountingPolicy.REQUEST:
        return [Term(name="reserved", value=-reserved, note="the policy uses no system usage", input=source)]
    if snapshot.system is None and reserved >= system:
        return [Term(name="reserved", value=-reserved, note="system usage was never measured", input=source)]
    apps = host_apps_of(resource, snapshot)
    if reserved > system:
        users = "the system and host applications use" if apps else "the system uses"
        note = f"more than {users}, {amount_text(system, resource)}"
        return [Term(name="reserved", value=-reserved, note=note, input=source)]
    note = "never measured" if not snapshot.system else "p95" if snapshot.system_is_current else "last known p95"
    terms = [Term(name="system", value=apps - system, note=note, input="system_p95")]
    if apps:
        terms.append(Term(name="host_apps", value=-apps, note=_apps_said(resource, snapshot), input="host_apps_p95"))
    return terms


def _apps_said(resource: str, snapshot: NodeSnapshot) -> str:
    """Renders the host applications, the largest first."""
    held = [app for app in snapshot.host_apps if app.tier not in LOWER_TIERS]
    by_size = sorted(held, key=lambda app: (-amount(app.usage, resource), app.name))
    named = [f"{app.name} ({app.tier}) {amount_text(amount(app.usage, resource), resource)}" for app in by_size]
    return "p95: " + ", ".join(named[:_NAMED] + ([f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []))


def _term(tier: str, held: TierHolds) -> Term:
    return Term(name=tier, value=-held.value, note=held.note, input=held.input)


def _lent_to_mid(offered: int) -> Term:
    return Term(name="mid", value=-offered, note="offered to mid, so not to batch", input="mid_offered")


def _caps(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> list[tuple[int, str, str]]:
    """Returns each cap with its reason and its input."""
    whole, caps = amount(snapshot.capacity, resource), []
    if strategy.margin_mode is MarginMode.CAP:
        percent = strategy.reclaim_threshold(resource)
        note = f"at most {percent} % of capacity (margin as a cap)"
        caps.append((percent_of(whole, percent), note, "reclaim_threshold"))
    if (own := strategy.batch_threshold(resource)) is not None:
        caps.append((percent_of(whole, own), f"at most {own} % of capacity", "batch_threshold"))
    return caps


def _ceiling(resource: str, snapshot: NodeSnapshot, strategy: Strategy, reserved: int) -> int:
    margin = sum(term.value for term in _margin(resource, snapshot, strategy))
    bearable = amount(snapshot.capacity, resource) + margin - reserved
    return max(0, min([bearable, *(most for most, _, _ in _caps(resource, snapshot, strategy))]))


def _limit(terms: list[Term], most: int, name: str, note: str, source: str = "") -> None:
    total = sum(term.value for term in terms)
    if total > most:
        terms.append(Term(name=name, value=most - total, note=note, input=source))
