"""Each action has a decision record, and a record gives the same result again, bit for bit."""

from __future__ import annotations

import importlib
import json
from typing import Any, ClassVar

import msgspec
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import Action, DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.intent_declared import IntentDeclared
from slackwater.waterline.execution.plan import Step as PlanStep
from slackwater.waterline.loop.applied_limits import limits_of

REPEATED_ALWAYS, REPEATED_EACH = 20, 7
"""The first records of a run are all repeated, and then one of so many: each costs a millisecond."""
_AMOUNTS = frozenset({DecisionKind.OFFER, DecisionKind.PREDICTION})
_PLANS = frozenset({DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT})


class RecordsCanBeRepeated(Invariant):
    """The recorded function with the recorded arguments gives the recorded amount, or the recorded actions."""

    NAME = "records can be repeated"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._seen = 0

    def on_step(self, step: Step) -> None:
        if not step.subject.startswith(f"sw.v1.{DecisionRecorded.TYPE}."):
            return
        self._seen += 1
        if self._seen > REPEATED_ALWAYS and self._seen % REPEATED_EACH:
            return
        recorded = payload_of(step, DecisionRecorded)
        if recorded is not None and not recorded.record.compact:
            check_repeats(recorded.record)


class ActionsHaveRecords(Invariant):
    """At rest every decision that an intent names is recorded, or waits in its node's account to be listed by the next
    record (slackwater.decisions.record_budget)."""

    NAME = "actions have records"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._named: dict[str, str] = {}
        self._recorded: set[str] = set()

    def on_step(self, step: Step) -> None:
        if step.subject.startswith(f"sw.v1.{DecisionRecorded.TYPE}."):
            record = json.loads(step.value.body)["record"]
            self._recorded.add(record["id"])
            self._recorded.update(one["id"] for one in record.get("listed", ()))
        elif (intent := payload_of(step, IntentDeclared)) is not None:
            named = [(one.decision_id, one.pod_uid) for one in intent.throttles]
            named += [(one.decision_id, one.pod_uid) for one in intent.memory_throttles]
            named += [(one.decision_id, one.pod_uid) for one in intent.evictions]
            for decision, uid in named:
                self._named.setdefault(decision, f"{uid} on {intent.node}")

    def at_rest(self) -> None:
        missing = sorted(self._named.keys() - self._recorded)
        waiting = self._accounts() if missing else ""
        missing = [decision for decision in missing if decision not in waiting]
        if missing:
            raise Violation(
                f"decision {missing[0]} about {self._named[missing[0]]} has no record; {len(missing)} in all"
            )

    def _accounts(self) -> str:
        """The rows of ensurance's nodes, in which the accounts are."""
        return repr(list(self.world.postgres.schemas["ensurance"].tables["guarded_nodes"].committed()))


def check_repeats(record: DecisionRecord) -> None:
    """Repeat a record from its JSON. Raises Violation."""
    module, _, name = record.replay.function.partition(":")
    arguments = json.loads(json.dumps(record.replay.arguments))
    again = getattr(importlib.import_module(module), name)(**arguments)
    if record.kind in _AMOUNTS and again != record.result:
        raise Violation(f"{record.kind} {record.id} of {record.node} recorded {record.result}; repeated: {again}")
    if record.kind in _PLANS:
        actions, repeated = [_of_action(one) for one in record.actions], _of_plan(again, record)
        if actions != repeated:
            raise Violation(f"{record.kind} {record.id} of {record.node} recorded {actions}; repeated: {repeated}")


def _of_action(action: Action) -> tuple[Any, ...]:
    if action.memory is not None:
        return (action.pod_uid, "memory", action.memory.before_bytes, action.memory.after_bytes)
    if action.evicted:
        return (action.pod_uid, "evict", None, None)
    return (action.pod_uid, "cpu", action.cpu_limit_before_milli, action.cpu_limit_after_milli)


def _of_plan(plan: dict[str, Any], record: DecisionRecord) -> list[tuple[Any, ...]]:
    """The actions of the record's kind in a repeated plan."""
    is_memory = record.subject == "memory" and record.kind is not DecisionKind.EVICT
    found: list[tuple[Any, ...]] = []
    for raw in plan["steps"]:
        step = msgspec.convert(raw, PlanStep, strict=False)
        if step.kind.value.removesuffix("-memory") != record.kind.value or (step.memory is not None) != is_memory:
            continue
        if step.memory is not None:
            found.append((step.uid, "memory", step.memory.before_bytes, step.memory.after_bytes))
        elif step.changes:
            found.append((step.uid, "cpu", *limits_of(step)))
        else:
            found.append((step.uid, "evict", None, None))
    return found


INVARIANTS = (RecordsCanBeRepeated, ActionsHaveRecords)
