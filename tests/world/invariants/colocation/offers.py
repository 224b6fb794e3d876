"""Offers: never more than the formulas allow on what was known; those of old usage only shrink."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of, raw_record_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.offers.mid import node_offers
from slackwater.offers.snapshot_json import snapshot_from_json
from slackwater.offers.strategy import strategy_from_json

DEGRADED = (Reason.OFFER_DEGRADED,)


RELAYED_SECONDS = 1.0
"""Within so long of an offer its records are on the bus: the outbox relays the events of a commit side by side. An
offer that shrinks by age may be the last event of a run."""


class OffersFollowTheFormulas(Invariant):
    """An offer is at most the formula's ceiling for the recorded inputs, and is the amount that its records name."""

    NAME = "offers follow the formulas"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._results: dict[str, int] = {}
        self._offers: dict[str, tuple[float, ResourcesOffered]] = {}
        """The newest offer of each node, and when it was stored."""

    def on_step(self, step: Step) -> None:
        if (offer := payload_of(step, ResourcesOffered)) is not None:
            self._offers[offer.node] = step.at, offer
        elif (record := _offer_record(step)) is not None:
            self._results[record.id] = record.result
            check_ceiling(record)

    def at_rest(self) -> None:
        ends_at = self.world.loop.time()
        for node, (stored_at, offer) in self._offers.items():
            if stored_at > ends_at - RELAYED_SECONDS:
                continue
            for subject, decision in offer.decision_ids.items():
                amount = amount_of(offer, subject)
                if decision not in self._results:
                    raise Violation(f"the {subject} offer of {node} names decision {decision}, which is not recorded")
                if self._results[decision] != amount:
                    raise Violation(f"{node} offers {amount} of {subject}; its record says {self._results[decision]}")


class OldOffersShrink(Invariant):
    """Time alone lets no offer grow: where only the age of the inputs has changed, the amount is at most the one
    before; and a lost node offers nothing."""

    NAME = "old offers shrink"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last: dict[tuple[str, str], DecisionRecord] = {}

    def on_step(self, step: Step) -> None:
        record = _offer_record(step)
        if record is None:
            return
        key = (record.node, record.subject)
        before = self._last.get(key)
        if before is not None and record.decided_at >= before.decided_at:
            check_shrinks(before, record)
        self._last[key] = record


def check_shrinks(before: DecisionRecord, record: DecisionRecord) -> None:
    """Raises Violation."""
    if _is_lost(record) and record.result:
        raise Violation(f"{record.node} is lost and offers {record.result} of {record.subject}")
    is_older = _age(record) >= _age(before)
    if _is_lost(before) and not _is_lost(record):
        return  # the node is back
    if is_older and record.reason in DEGRADED and _inputs(before) == _inputs(record) and record.result > before.result:
        grown = f"from {before.result} to {record.result} while its inputs aged"
        raise Violation(f"{record.node}: {record.subject} grew {grown} from {_age(before):.0f} to {_age(record):.0f} s")


def _offer_record(step: Step) -> DecisionRecord | None:
    raw = raw_record_of(step)
    if raw is None or raw["kind"] != DecisionKind.OFFER:
        return None
    recorded = payload_of(step, DecisionRecorded)
    return None if recorded is None else recorded.record


def _is_lost(record: DecisionRecord) -> bool:
    is_lost: bool = record.replay.arguments["snapshot"]["lost"]
    return is_lost


def _age(record: DecisionRecord) -> float:
    age: float = record.replay.arguments["snapshot"]["age_seconds"]
    return age


def _inputs(record: DecisionRecord) -> dict[str, Any]:
    """Everything but time and gate."""
    arguments = record.replay.arguments
    snapshot = {name: value for name, value in arguments["snapshot"].items() if name not in ("age_seconds", "lost")}
    return {**{name: arguments[name] for name in ("strategy", "window")}, "snapshot": snapshot}


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


INVARIANTS = (OffersFollowTheFormulas, OldOffersShrink)
