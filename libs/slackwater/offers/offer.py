"""The whole decision of one resource: compute, age, gate, take off what is reserved.

Its terms add up, and it can be repeated from JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from slackwater.decisions.record import Term
from slackwater.model.records import record
from slackwater.offers.batch import Computed
from slackwater.offers.degradation import aged, degraded_because
from slackwater.offers.kept_room import kept_amount, kept_terms
from slackwater.offers.mid import node_offers
from slackwater.offers.publish_gate import PublishGate, pass_gate
from slackwater.offers.snapshot import LOWER_TIERS, NodeSnapshot, PodInput
from slackwater.offers.snapshot_json import snapshot_from_json, snapshot_to_json
from slackwater.offers.strategy import Strategy, strategy_from_json, strategy_to_json

FUNCTION = "slackwater.offers.offer:decide"


@record(frozen=True, slots=True)
class Decided:
    """The value in force, its terms, and the gate afterwards. `taken`: what reservations took off the gate's value."""

    value: int
    terms: tuple[Term, ...]
    gate: PublishGate
    taken: int = 0


def settled(
    computed: Computed, snapshot: NodeSnapshot, strategy: Strategy, gate: PublishGate, window: int, kept: int = 0
) -> Decided:
    """Applies ageing, gate and reservations to a computed offer. `window` is the end of the usage's window, seconds
    since 1970; `kept` is what reservations of the tier hold."""
    left, ageing = aged(computed.offered, snapshot, strategy)
    value, after = pass_gate(
        gate,
        left,
        ceiling=computed.ceiling,
        window=window,
        degraded=degraded_because(snapshot, strategy) is not None,
        strategy=strategy,
    )
    terms = computed.terms + ageing
    if value != left:
        terms += (Term(name="hysteresis", value=value - left, note=_held_back(gate, value, left), input="in_force"),)
    taken = min(value, kept)
    return Decided(value - taken, (*terms, *kept_terms(value, kept)), after, taken)


def _held_back(gate: PublishGate, value: int, computed: int) -> str:
    """Returns why another value than the computed one is published."""
    if value == gate.published:
        change = "rise" if computed > value else "drop"
        return f"the published value stays: the {change} is too small, or has not lasted long enough"
    return "the lowest value since the change began"


def decide(
    resource: str,
    snapshot: dict[str, Any],
    strategy: dict[str, Any],
    gate: dict[str, Any],
    window: int,
    tier: str = "batch",
) -> int:
    """Repeat a recorded decision from the JSON of its record: of `cpu` in milli-cores or of `memory` in bytes. Records
    from before mid name no tier."""
    known, rebuilt = snapshot_from_json(snapshot), strategy_from_json(strategy)
    offers = node_offers(resource, known, rebuilt)
    computed = offers.mid if tier == "mid" else offers.batch
    kept = kept_amount(tier, resource, known)
    return settled(computed, known, rebuilt, PublishGate(**gate), window, kept).value


def replay_of_all(snapshot: NodeSnapshot, strategy: Strategy, window: int) -> dict[str, Any]:
    """Returns the JSON shared by the records of one decision, from which `decide` gives the same results. Pods of lower
    tiers have no effect and are left out.
    """
    return {
        "snapshot": snapshot_to_json(replace(snapshot, pods=_counted(snapshot.pods))),
        "strategy": strategy_to_json(strategy),
        "window": window,
    }


def replay_of(tier: str, resource: str, gate: PublishGate) -> dict[str, Any]:
    """Returns the JSON specific to one record."""
    return {"tier": tier, "resource": resource, "gate": asdict(gate)}


def _counted(pods: Sequence[PodInput]) -> tuple[PodInput, ...]:
    return tuple(pod for pod in pods if pod.tier not in LOWER_TIERS)
