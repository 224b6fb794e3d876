"""Each action has a decision record, and a record gives the same result again, bit for bit."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.decisions.repeat import check_repeats
from tests.world.invariants.payloads import payload_of, raw_record_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.reasons import DecisionKind
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.intent_declared import IntentDeclared

REPEATED_ALWAYS, REPEATED_EACH = 20, 7
"""Plans are all repeated; of offers and predictions the first of a run, and then one of so many."""
AMOUNTS = frozenset({DecisionKind.OFFER, DecisionKind.PREDICTION})


class RecordsCanBeRepeated(Invariant):
    """The recorded function with the recorded arguments gives the recorded result, and everything else that the record
    says follows from its arguments (tests.world.invariants.decisions.repeat)."""

    NAME = "records can be repeated"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._seen: Counter[str] = Counter()

    def on_step(self, step: Step) -> None:
        raw = raw_record_of(step)
        if raw is None:
            return
        kind = raw["kind"]
        self._seen[kind] += 1
        if kind in AMOUNTS and self._seen[kind] > REPEATED_ALWAYS and self._seen[kind] % REPEATED_EACH:
            return
        recorded = payload_of(step, DecisionRecorded) or payload_of(step, AgentDecisionRecorded)
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
        if (record := raw_record_of(step)) is not None:
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


INVARIANTS = (RecordsCanBeRepeated, ActionsHaveRecords)
