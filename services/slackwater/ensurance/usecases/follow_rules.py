"""On a changed document: every node's intent is declared again, in one transaction by each owner of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.guarded import Guarded, carried_out
from slackwater.ensurance.ports import NODES, GuardUnit, Meter
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.closing import Closing, under_rules
from slackwater.ensurance.usecases.declaring import declared, recorded, scheduling_told
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import new_id
from slackwater.model.time import Clock
from slackwater.waterline.cycle import Options
from slackwater.waterline.explaining import release_record
from slackwater.waterline.guarding import is_released, release, under_new_rules
from slackwater.waterline.rulebook import Rulebook
from slackwater.waterline.standing_on import Deciding


class FollowRules:
    """Counting starts anew under new rules. A mode that allows no throttles gives all of them back at once."""

    def __init__(self, book: Book, clock: Clock, meter: Meter, lease_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._meter = meter
        self._lease_seconds = lease_seconds

    async def catch_up(self) -> int:
        """Declare anew what was last declared under other rules: a document has changed, or the replica that owned a
        node before this one had no time to. Returns how many nodes. Raises Unavailable, Conflict."""
        async with self._book.turn():
            await self._book.read_rules()
            revision = self._book.rules.revision
            behind = [node for node in self._book.nodes() if node.policy_generation != revision]
            if behind:
                await self._carry_out_or_split(behind)
            return len(behind)

    async def _carry_out_or_split(self, behind: Sequence[Guarded]) -> None:
        """Together; where something cannot be stored, one by one, and what fails then is set aside."""
        try:
            await self._carry_out(behind)
        except InvalidInput:
            for node in behind:
                with self._book.quarantine.isolating(NODES, node.node, node=node.node):
                    await self._carry_out([node])

    async def _carry_out(self, affected: Sequence[Guarded]) -> None:
        now, rules = self._clock.now(), self._book.rules
        nodes, records = list[Guarded](), list[DecisionRecord]()
        async with self._book.writing() as unit:
            for node in affected:
                work = partial(self._under, node, rules, now)
                under = self._book.quarantine.attempt(NODES, node.node, work, node=node.node)
                if under is None:
                    continue
                nodes.append(await self._declare(unit, under, rules, now))
                records += under.records
        for node in nodes:
            self._book.put(node)
            self._meter.standing(node.node, len(node.state.throttles), 0)
        for record in records:
            self._meter.decided(record, None)

    def _under(self, node: Guarded, rules: Rulebook, now: datetime) -> _Under:
        return _under(node, rules, self._book.options(node, now, rules), now)

    async def _declare(self, unit: GuardUnit, under: _Under, rules: Rulebook, now: datetime) -> Guarded:
        after = replace(under.after, policy_generation=rules.revision)
        cause: Event[DecisionRecorded] | None = None
        for record in under.records:
            told = recorded(record, None)
            await unit.publish(told)
            if record is under.closing.record and under.closing.event is not None:
                await unit.publish(scheduling_told(under.closing.event, now, told))
            else:
                cause = told
        terms = self._book.terms(after, now, rules)
        await unit.publish(declared(after, terms, self._lease_seconds, now, cause))
        return await unit.save(after)


@dataclass(frozen=True, slots=True)
class _Under:
    """A node under a new policy, and why that changed more than its counters."""

    after: Guarded
    records: tuple[DecisionRecord, ...]
    closing: Closing


def _under(node: Guarded, rules: Rulebook, options: Options, now: datetime) -> _Under:
    """A new generation in any case, without throttles if the mode allows none, and open if nothing may hold it
    closed."""
    source = Deciding(node.node, node.capacity_milli, node.state, rules, options, now)
    state, records = under_new_rules(node.state), tuple[DecisionRecord, ...]()
    after = replace(node, generation=node.generation + 1, state=state)
    if is_released(node.state, options):
        plan, released = release(node.state, node.capacity_milli)
        records = (release_record(new_id(), plan, source, {one.uid: one.tier for one in node.state.throttles}),)
        state = under_new_rules(released)
        after = carried_out(node, state, {}, (), (), now)
    state, closing = under_rules(node, state, source, node.labels)
    after = replace(after, state=state, closed=closing.closed)
    return _Under(after, records if closing.record is None else (*records, closing.record), closing)
