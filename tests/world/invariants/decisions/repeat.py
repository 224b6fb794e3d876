"""Repeats a decision from the JSON of its record, and compares all that follows from it bit for bit."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.world.invariants import Violation
from tests.world.invariants.decisions.move_repeats import REPEATS
from tests.world.invariants.differences import difference

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.offers import offer
from slackwater.offers.mid import node_offers
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot_json import snapshot_from_json
from slackwater.offers.strategy import strategy_from_json
from slackwater.prediction.domain.prediction_record import Reasons, explain
from slackwater.quota.domain import claim_replay, finding_replay
from slackwater.quota.domain.ledger_records import DEFAULT_TREE
from slackwater.quota.usecases.claim_records import claim_records, finding_record, place_of
from slackwater.waterline import cycle_replay, decision_record
from slackwater.waterline.cycle import Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.node_guard import guard, release
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Rulebook

GIVEN_LATER = ("trace_id", "episode", "step", "listed", "listed_beyond")
"""Fields that the decision does not determine: its trace, and its place among the records of its node."""


def check_repeats(record: DecisionRecord) -> None:
    """Repeat a record: the recorded function with the recorded arguments, and what the record says beyond its result.
    Raises Violation."""
    again = _replayed(record)
    if record.kind in (DecisionKind.OFFER, DecisionKind.PREDICTION) and again != record.result:
        _differs(record, record.result, again)
    compare = _WHOLE.get(record.replay.function)
    if compare is None:
        raise Violation(f"{record.kind} {record.id} names {record.replay.function}, which the world cannot repeat")
    said, repeated = compare(record, again)
    if said != repeated:
        _differs(record, said, repeated)


def _differs(record: DecisionRecord, said: Any, repeated: Any) -> None:
    what = difference(said, repeated)
    raise Violation(f"{record.kind} {record.id} of {record.node} repeats with another result; recorded {what}")


def _replayed(record: DecisionRecord) -> Any:
    module, _, name = record.replay.function.partition(":")
    return getattr(importlib.import_module(module), name)(**_arguments(record))


def _arguments(record: DecisionRecord) -> Any:
    return json.loads(json.dumps(record.replay.arguments))


def _of_offer(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    given = _arguments(record)
    snapshot, strategy = snapshot_from_json(given["snapshot"]), strategy_from_json(given["strategy"])
    both = node_offers(given["resource"], snapshot, strategy)
    computed = both.mid if given["tier"] == "mid" else both.batch
    again = offer.settled(computed, snapshot, strategy, PublishGate(**given["gate"]), given["window"])
    return record.terms, again.terms


def _of_prediction(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    terms = explain(Reasons(**_arguments(record)))[1]
    said, repeated = ([(term.name, term.value) for term in one] for one in (record.terms, terms))
    return said, repeated


def _of_plan(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    """The record is built again from its arguments; only GIVEN_LATER may differ."""
    given = _arguments(record)
    view, options = cycle_replay.VIEW.validate_python(given["view"]), _options(given)
    state, policies = cycle_replay.STATE.validate_python(given["state"]), _policies(given)
    now = cycle_replay.TIME.validate_python(given["now"])
    cycle = guard(view, state, policies, now, options, all_metrics()).cycle
    source = DecisionContext(
        record.node, view.capacity_milli or 0, state, _rules(record, policies), options, now, view,
        record.trigger_event_id, record.service,
    )  # fmt: skip
    is_preview = given["would"]
    made = [
        decision_record.record_of(record.id, plan, cycle, source)
        for plan in cycle.recorded
        if (plan.plan is cycle.dry_run) == is_preview and decision_record.kind_of(plan.kind) is record.kind
    ]
    own = [one for one in made if one.subject == record.subject]
    return _told(record), _told(own[0]) if len(own) == 1 else [(one.kind, one.subject) for one in made]


def _of_release(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    given = _arguments(record)
    state = cycle_replay.STATE.validate_python(given["state"])
    plan, _after = release(state, given["capacity_milli"])
    assert record.mode is not None
    source = DecisionContext(
        record.node, given["capacity_milli"], state, _rules(record, _policies({})), Options(record.mode),
        record.decided_at, None, record.trigger_event_id, record.service,
    )  # fmt: skip
    made = decision_record.release_records(lambda: record.id, plan, source)
    own = [one for one in made if one.subject == record.subject]
    return _told(record), _told(own[0]) if len(own) == 1 else [one.subject for one in made]


def _of_scheduling(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    """The rules that cordon the node, or that would; an uncordoned node has none."""
    closing = {term.name for term in record.terms if term.value}
    if record.reason is Reason.SCHEDULING_OBSERVED_ONLY:
        return sorted(closing), sorted(again)
    is_closed, because = again["is_disabled"], again["because"] if again["is_disabled"] else ()
    return (record.reason is Reason.SCHEDULING_WATERLINE_CROSSED, sorted(closing)), (is_closed, sorted(because))


def _of_autonomy(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    because = record.alternatives[0].rejected_because
    return (record.mode, because), (again["mode"], again["because"] or because)


def _of_claim(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    """The record is built again from its arguments; its id also names the generation of its tree."""
    given = _arguments(record)
    snapshot = claim_replay.snapshot_of(given["snapshot"])
    decision = claim_replay.decided_again(snapshot, given["now_s"], given["claim"])
    tree = snapshot.quotas[0].tree if snapshot.quotas else ""
    made = claim_records([decision], snapshot, tree, 0, record.decided_at)[decision.claim]
    return _told(record), {**_told(made), "id": record.id}


def _of_finding(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    """The record is built again from its arguments."""
    given, now = _arguments(record), record.decided_at
    evidence = finding_replay.evidence_of(given["evidence"])
    found = None if given["found"] is None else claim_replay.claim_of(given["found"])
    decision = finding_replay.observed_again(evidence, given["now_s"], given["claim"], found)
    if decision is None:
        return _told(record), again
    named = record.node.removeprefix(place_of("").removesuffix(DEFAULT_TREE))
    trees = ("", named) if named == DEFAULT_TREE else (named,)  # both are shown by one name; the id is of one of them
    made = [finding_record(decision, evidence, tree, now, given["claim"], found) for tree in trees]
    return _told(record), _told(next((one for one in made if one.id == record.id), made[0]))


def _of_amount(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    return record.result, again


_WHOLE: Mapping[str, Callable[[DecisionRecord, Any], tuple[Any, Any]]] = MappingProxyType(
    {
        offer.FUNCTION: _of_offer,
        "slackwater.offers.degradation:offer_in_quarantine": _of_amount,
        "slackwater.prediction.domain.prediction_record:decide": _of_prediction,
        cycle_replay.REPLAY: _of_plan,
        cycle_replay.REPLAY_RELEASE: _of_release,
        cycle_replay.REPLAY_SCHEDULING: _of_scheduling,
        cycle_replay.REPLAY_SCHEDULING_UNDER: _of_scheduling,
        "slackwater.waterline.autonomy_record:replay": _of_autonomy,
        claim_replay.FUNCTION: _of_claim,
        finding_replay.FUNCTION: _of_finding,
        **REPEATS,
    }
)
"""By the function that a record names, what it says and what the repetition gives."""


def _told(record: DecisionRecord) -> dict[str, Any]:
    whole = record.model_dump(mode="json")
    return {name: value for name, value in whole.items() if name not in GIVEN_LATER}


def _options(given: Mapping[str, Any]) -> Options:
    options: Options = cycle_replay.OPTIONS.validate_python(given["options"])
    return options


def _policies(given: Mapping[str, Any]) -> Any:
    return cycle_replay.POLICIES.validate_python(given.get("policies", {"nodes": ()}))


def _rules(record: DecisionRecord, policies: Any) -> Rulebook:
    """The documents in force; a record names them as the source of the mode."""
    return Rulebook(next(one.source for one in record.inputs if one.name == "mode"), policies)
