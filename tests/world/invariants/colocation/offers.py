"""Offers: never more than the formulas allow on what was known; those of old usage only shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.quantities import Resources
from slackwater.offers.mid import node_offers
from slackwater.offers.snapshot_json import snapshot_from_json
from slackwater.offers.strategy import strategy_from_json

if TYPE_CHECKING:
    from tests.world.world import World

OLD = ("usage is old", "node is lost")


class OffersFollowTheFormulas(Invariant):
    """An offer is at most the formula's ceiling for the recorded inputs, and is the amount that its records name."""

    NAME = "offers follow the formulas"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._results: dict[str, int] = {}
        self._offers: dict[str, ResourcesOffered] = {}

    def on_step(self, step: Step) -> None:
        if (offer := payload_of(step, ResourcesOffered)) is not None:
            self._offers[offer.node] = offer
        elif (recorded := payload_of(step, DecisionRecorded)) is not None:
            record = recorded.record
            if record.kind is DecisionKind.OFFER:
                self._results[record.id] = record.result
                check_ceiling(record)

    def at_rest(self) -> None:
        for node, offer in self._offers.items():
            for subject, decision in offer.decision_ids.items():
                amount = amount_of(offer, subject)
                if decision not in self._results:
                    raise Violation(f"the {subject} offer of {node} names decision {decision}, which is not recorded")
                if self._results[decision] != amount:
                    raise Violation(f"{node} offers {amount} of {subject}; its record says {self._results[decision]}")


class OldOffersShrink(Invariant):
    """While a node's usage is old or the node is lost, no published amount is above the one before."""

    NAME = "old offers shrink"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last: dict[str, ResourcesOffered] = {}

    def on_step(self, step: Step) -> None:
        offer = payload_of(step, ResourcesOffered)
        if offer is None:
            return
        before = self._last.get(offer.node)
        if before is not None and offer.generation <= before.generation:
            return
        self._last[offer.node] = offer
        if before is not None and offer.degraded in OLD:
            check_shrinks(before, offer)


def check_shrinks(before: ResourcesOffered, offer: ResourcesOffered) -> None:
    """Raises Violation."""
    amounts = (("batch", before.batch, offer.batch), ("mid and batch", _all(before), _all(offer)))
    for name, old, new in amounts:
        if new.cpu_milli > old.cpu_milli or new.memory_bytes > old.memory_bytes:
            raise Violation(f"{offer.node}: {name} grew from {old} to {new} while {offer.degraded}")


def check_ceiling(record: DecisionRecord) -> None:
    """Raises Violation for an offer above what the formula allows for its recorded inputs."""
    arguments = record.replay.arguments
    snapshot, strategy = snapshot_from_json(arguments["snapshot"]), strategy_from_json(arguments["strategy"])
    both = node_offers(arguments["resource"], snapshot, strategy)
    computed = both.mid if arguments.get("tier") == "mid" else both.batch
    if not 0 <= record.result <= max(0, computed.ceiling):
        raise Violation(
            f"{record.node} offers {record.result} of {record.subject}; at most {computed.ceiling} is allowed"
        )


def amount_of(offer: ResourcesOffered, subject: str) -> int:
    """The amount of `batch-cpu` or the like."""
    tier, _, resource = subject.partition("-")
    amounts = offer.mid if tier == "mid" else offer.batch
    return amounts.cpu_milli if resource == "cpu" else amounts.memory_bytes


def _all(offer: ResourcesOffered) -> Resources:
    return offer.mid + offer.batch


INVARIANTS = (OffersFollowTheFormulas, OldOffersShrink)
