"""On a changed document: declare every node's intent again. Each replica does so for its nodes, some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.node_state import GuardedNode, carried_out
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.ports import NODES, GuardUnit
from slackwater.ensurance.usecases.cordon import Cordon, scheduling_event, under_rules
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.decision_recorded import DecisionRecorded, decision_event
from slackwater.events.envelope import Event
from slackwater.intents.controls import ENSURANCE
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import new_id
from slackwater.waterline.cycle import Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import release_records
from slackwater.waterline.node_guard import is_released, release, under_new_rules
from slackwater.waterline.rulebook import Rulebook

AT_ONCE: Final = 8
"""Nodes that are declared in one transaction. No other change of a node begins meanwhile: with all nodes in one
transaction, each change of a document held up every decision."""


class FollowRules:
    """Counters start again under new rules. A mode that allows no throttles restores all limits at once."""

    def __init__(self, cache: GuardedNodeCache, meter: EnsuranceMetrics, intents: GuardIntents) -> None:
        self._cache = cache
        self._meter = meter
        self._intents = intents

    async def catch_up(self) -> int:
        """Declare again the nodes that were last declared under other rules, because a document has changed or
        the former owner of a node did not get to it. Returns how many nodes. Raises Unavailable, Conflict.

        Decisions on nodes go on between two transactions. If a document changes meanwhile, the nodes that are left
        follow the newest rules at once.
        """
        await self._cache.read_rules()
        names, declared = [node.node for node in self._cache.nodes() if self._is_behind(node)], 0
        for first in range(0, len(names), AT_ONCE):
            async with self._cache.lock():
                known = map(self._cache.node, names[first : first + AT_ONCE])
                behind = [node for node in known if node is not None and self._is_behind(node)]
                if behind:
                    await self._carry_out_or_split(behind)
            declared += len(behind)
        return declared

    def _is_behind(self, node: GuardedNode) -> bool:
        return node.policy_generation != self._cache.rules.revision

    async def _carry_out_or_split(self, behind: Sequence[GuardedNode]) -> None:
        """These nodes in one transaction; if that fails, node by node, and a node that fails goes to quarantine."""
        try:
            await self._carry_out(behind)
        except InvalidInput:
            for node in behind:
                with self._cache.quarantine.isolating(NODES, node.node, node=node.node):
                    await self._carry_out([node])

    async def _carry_out(self, affected: Sequence[GuardedNode]) -> None:
        now, rules = self._intents.clock.now(), self._cache.rules
        nodes, records = list[GuardedNode](), list[DecisionRecord]()
        async with self._cache.transaction() as unit:
            for node in affected:
                work = partial(self._under, node, rules, now)
                under = self._cache.isolate(node.node, work)
                if under is None:
                    continue
                nodes.append(await self._declare(unit, under, rules, now))
                records += under.records
        for node in nodes:
            self._cache.put(node)
            self._meter.standing(node.node, len(node.state.limited), 0)
        for record in records:
            self._meter.decided(record, None)

    def _under(self, node: GuardedNode, rules: Rulebook, now: datetime) -> _Under:
        return _under(node, rules, self._cache.options(node, now, rules), now)

    async def _declare(self, unit: GuardUnit, under: _Under, rules: Rulebook, now: datetime) -> GuardedNode:
        after = replace(under.after, policy_generation=rules.revision)
        cause: Event[DecisionRecorded] | None = None
        for record in under.records:
            decision = decision_event(record, None, ENSURANCE.name)
            await unit.publish(decision)
            if record is under.closing.record and under.closing.event is not None:
                await unit.publish(scheduling_event(under.closing.event, now, decision))
            else:
                cause = decision
        await unit.publish(self._intents.event(after, now, cause, self._cache.content(after, now, rules)))
        return await unit.save(after)


@dataclass(frozen=True, slots=True)
class _Under:
    """A node under a new policy, with the records of what that changed beside its counters."""

    after: GuardedNode
    records: tuple[DecisionRecord, ...]
    closing: Cordon


def _under(node: GuardedNode, rules: Rulebook, options: Options, now: datetime) -> _Under:
    """The node with a new generation in any case, without throttles if the mode allows none, and uncordoned if no rule
    may keep its cordon."""
    source = DecisionContext(node.node, node.capacity_milli, node.state, rules, options, now)
    state, records = under_new_rules(node.state), tuple[DecisionRecord, ...]()
    after = replace(node, generation=node.generation + 1, state=state)
    if is_released(node.state, options):
        plan, released = release(node.state, node.capacity_milli)
        records = release_records(new_id, plan, source)
        state = under_new_rules(released)
        after = carried_out(node, state, {}, (), (), now)
    state, closing = under_rules(node, state, source, node.labels)
    after = replace(after, state=state, closed=closing.closed)
    return _Under(after, records if closing.record is None else (*records, closing.record), closing)
