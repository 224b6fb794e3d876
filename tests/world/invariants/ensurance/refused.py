"""An eviction that was refused or did not begin relieves nothing: it is credited no more once it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.plan import ENSURANCE
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.ensurance.ports import NODES
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome

IN_VAIN: Final = frozenset({EvictionOutcome.REFUSED, EvictionOutcome.EXPIRED, EvictionOutcome.FAILED})


class RefusedEvictionsRelieveNothing(Invariant):
    """With the answer that ended no pod, an eviction leaves the state of its node, and is under way no longer: the next
    plan takes another candidate for it. It does not count towards the node's hourly limit."""

    NAME = "refused evictions relieve nothing"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._answers: dict[str, EvictionOutcome] = {}

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STORED:
            if (completed := payload_of(step, EvictionCompleted)) is not None:
                self._answers[completed.id] = completed.outcome
        elif step.subject == ENSURANCE:
            self._check(step.value)

    def _check(self, commit: Commit) -> None:
        for (table, _), (before, after) in commit.written.items():
            if table == NODES and before is not None and after is not None:
                self._compare(_document(commit, before), _document(commit, after))

    def _compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        asked = {one["id"]: one["pod_uid"] for one in after["evictions"]}
        for one in before["evictions"]:
            uid, outcome = one["pod_uid"], self._answers.get(one["id"])
            if one["id"] in asked or uid in asked.values() or outcome not in IN_VAIN:
                continue
            executor = after["state"]["cycle"]["executor"]
            if any(entry["uid"] == uid for entry in executor["underway"]):
                raise Violation(f"{after['node']}: the eviction of {uid} was {outcome}, and it is still under way")


def _document(commit: Commit, row: Any) -> Mapping[str, Any]:
    names = commit.schema.tables[NODES].definition.names
    content: Mapping[str, Any] = dict(zip(names, row, strict=True))["document"].content
    return content


INVARIANTS = (RefusedEvictionsRelieveNothing,)
