"""Every change of a document is recorded in the transaction that publishes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.reasons import DecisionKind
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Payload
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import READ_REFUSED, IntentObserved, ObservedLimit, ObservedMemoryLimit
from slackwater.events.serialized import type_of
from slackwater.intents.controls import ENSURANCE

GUARDED = "guarded_nodes"
CPU, MEMORY, EVICT = "cpu", "memory", "evict"
Limits = Mapping[tuple[str, str], tuple[int | None, str]]
"""By pod uid and what is limited, the limit (None: an eviction has none) and its decision."""


@dataclass(slots=True)
class Recorded:
    """The records of one transaction, and what waits in the accounts of its nodes to be listed by a later one."""

    afters: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    """By decision, pod uid and what is limited, the limit after it."""
    waiting: dict[str, str] = field(default_factory=dict)
    """The kind of each decision that waits, by its id."""

    @property
    def restored(self) -> set[tuple[str, str]]:
        """Pods of which a record says that a limit has gone back or has risen."""
        return {(uid, what) for _, uid, what in self.afters}

    def is_decided(self, decision: str, uid: str, what: str, after: int | None) -> bool:
        """Whether a record sets this limit or evicts the pod, or its summary waits."""
        key = (decision, uid, what)
        return (key in self.afters and self.afters[key] == after) or decision in self.waiting

    def is_restored(self, uid: str, what: str) -> bool:
        """Whether a record, or one that waits, takes the limit of a pod away."""
        return (uid, what) in self.restored or DecisionKind.RESTORE in self.waiting.values()


class ChangesAreRecorded(Invariant):
    """The commit that publishes a document has the record of each limit and eviction that is new in it, with the same
    amount, and of each limit that is gone. A limit also goes without a decision when its pod has ended, and changes or
    goes without one when the agent answers that it could not set it and what is in force."""

    NAME = "changes are recorded"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._limits: dict[str, Limits] = {}
        """Of the last document of each node."""
        self._refused: set[tuple[str, str]] = set()

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            if step.subject == ENSURANCE.name:
                self._check(step.value)
        elif (answer := payload_of(step, IntentObserved)) is not None:
            self._refused |= {(one.pod_uid, CPU) for one in answer.limits if _is_refused(one)}
            self._refused |= {(one.pod_uid, MEMORY) for one in answer.memory_limits if _is_refused(one)}

    def _check(self, commit: Commit) -> None:
        documents = list(_published(commit, IntentDeclared))
        if not documents:
            return
        recorded = recorded_in(commit)
        for raw in documents:
            document = IntentDeclared.model_validate(raw)
            before, limits = self._limits.get(document.node, {}), limits_of(document)
            self._limits[document.node] = limits
            for (uid, what), (amount, decision) in limits.items():
                old = before.get((uid, what))
                is_as_read_back = old is not None and old[1] == decision and (uid, what) in self._refused
                is_new = old != (amount, decision) and not is_as_read_back
                if is_new and not recorded.is_decided(decision, uid, what, amount):
                    raise Violation(
                        f"the document {document.generation} of {document.node} has {what} {amount} for {uid} by "
                        f"{decision}; the records of its commit: {recorded.afters or 'none'}"
                    )
            for uid, what in before.keys() - limits.keys():
                is_explained = what == EVICT or (uid, what) in self._refused or self._has_ended(document.node, uid)
                if not is_explained and not recorded.is_restored(uid, what):
                    raise Violation(
                        f"the document {document.generation} of {document.node} has no {what} limit for {uid} any "
                        f"more, and no record of its commit restores it: {recorded.afters or 'none'}"
                    )

    def _has_ended(self, node: str, uid: str) -> bool:
        return all(uid not in one.machine.pods for one in self.world.stations.values() if one.node == node)


def _is_refused(answer: ObservedLimit | ObservedMemoryLimit) -> bool:
    """Whether the agent could not set a limit, and knows what is in force."""
    return answer.error not in (None, READ_REFUSED)


def limits_of(document: IntentDeclared) -> Limits:
    """Every limit and eviction of a document."""
    limits: dict[tuple[str, str], tuple[int | None, str]] = {
        (one.pod_uid, CPU): (one.cpu_limit_milli, one.decision_id) for one in document.throttles
    }
    limits |= {(one.pod_uid, MEMORY): (one.memory_high_bytes, one.decision_id) for one in document.memory_throttles}
    return limits | {(one.pod_uid, EVICT): (None, one.decision_id) for one in document.evictions}


def recorded_in(commit: Commit) -> Recorded:
    """What the records of a commit say about pods."""
    recorded = Recorded()
    for body in _published(commit, DecisionRecorded):
        record = body["record"]
        recorded.waiting.update((one["id"], one["kind"]) for one in record.get("listed", ()))
        for action in record["actions"]:
            what, after = effect_of(action)
            recorded.afters[record["id"], action["pod_uid"], what] = after
    for (table, _), (_before, after_row) in commit.written.items():
        if table == GUARDED and after_row is not None:
            recorded.waiting.update(_waiting(after_row))
    return recorded


def effect_of(action: Mapping[str, Any]) -> tuple[str, int | None]:
    """What an action changes, and the amount afterwards."""
    if action.get("memory") is not None:
        return MEMORY, action["memory"]["after_bytes"]
    return (EVICT, None) if action["evicted"] else (CPU, action["cpu_limit_after_milli"])


def _published(commit: Commit, payload: type[Payload]) -> Iterator[Any]:
    """The payloads of the events of a type that a commit publishes."""
    kind = type_of(payload)
    for (table, _), (before, after) in commit.written.items():
        if table == "outbox" and before is None and after is not None and after[2] == kind:
            yield json.loads(after[5])


def _waiting(row: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    for column in row:
        document = getattr(column, "content", None)
        if isinstance(document, dict):
            for one in document.get("records", {}).get("waiting", ()):
                yield one["id"], one["kind"]


INVARIANTS = (ChangesAreRecorded,)
