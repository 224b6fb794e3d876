"""The crash points of a move in the services descheduler and migration: before and after each thing that they persist
or publish. `python -m tests.faults.sabotage move-halts run SERVICE …` runs a service with them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.faults.halts import VARIABLE, Halts

from slackwater.descheduler.adapters.cycle_rows import KeyedCycleStore, KeyedCycleUnit
from slackwater.descheduler.domain.kept_plans import KeptPlan
from slackwater.descheduler.ports import CycleUnit
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.serialized import Written
from slackwater.migration.adapters.migration_rows import KeyedMigrationStore
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.domain.migration_round import JobStep, RoundResult, migration_round
from slackwater.migration.domain.stored_jobs import EvictionAnswer, GrantAnswer, MigrationLedger
from slackwater.migration.usecases import move_pods
from slackwater.podmigration.jobs import MigrationStep
from slackwater.store.outbox import OutboxRelay

BESIDE = "beside"
"""Jobs whose name begins so are only there to be held by the limits: no point is theirs."""
NEW = "new"


def transition_point(before: str, after: str) -> str:
    """The point of a job that goes from one step to another one."""
    return f"migration {before}-{after}"


def kept_point(event: str) -> str:
    """The point of a message whose content migration keeps."""
    return f"migration keeps {event}"


def publish_point(service: str, event: str) -> str:
    """The point of an event of the outbox."""
    return f"{service} publishes {event}"


def plan_point(state: str) -> str:
    """The point of a plan that is written in this state."""
    return f"descheduler keeps plan {state}"


def declared_point(what: str) -> str:
    """The point of an intent of migration: `evictions` or `starts`."""
    return f"migration declares {what}"


def install() -> None:
    """Put the points into the classes of this process."""
    halts = Halts(Path(os.environ[VARIABLE]))
    _in_rounds(halts)
    _in_answers(halts)
    _in_plans(halts)
    _in_relays(halts)


def _in_rounds(halts: Halts) -> None:
    decide, write = migration_round, KeyedMigrationStore.commit
    steps: list[JobStep] = []

    def deciding(*arguments: Any) -> RoundResult:
        result = decide(*arguments)
        steps[:] = result.steps
        return result

    async def commit(
        self: KeyedMigrationStore,
        before: MigrationLedger,
        after: MigrationLedger,
        events: Sequence[Any],
        done: Collection[str] = (),
    ) -> MigrationLedger:
        new = [name for name in after.jobs if name not in before.jobs and not name.startswith(BESIDE)]
        points = [transition_point(NEW, MigrationStep.WAITING) for _ in new]
        counted = [step for step in steps if not step.name.startswith(BESIDE)]
        points += [transition_point(step.before.step, step.after.step) for step in counted]
        steps.clear()
        for point in points:
            halts.at(f"{point} before")
        written = await write(self, before, after, events, done)
        for point in points:
            halts.at(f"{point} after")
        return written

    move_pods.__dict__["migration_round"] = deciding
    KeyedMigrationStore.commit = commit  # type: ignore[method-assign] # the point


def _in_answers(halts: Halts) -> None:
    answer, ask = KeyedMigrationStore.answer, KeyedMigrationStore.ask
    names = {EvictionAnswer: EvictionCompleted.TYPE, GrantAnswer: ReclaimAnswered.TYPE}

    async def answering(self: KeyedMigrationStore, said: EvictionAnswer | GrantAnswer) -> None:
        point = kept_point(names[type(said)])
        halts.at(f"{point} before")
        await answer(self, said)
        halts.at(f"{point} after")

    async def asking(self: KeyedMigrationStore, asks: Sequence[JobAsk]) -> None:
        proposed = [each for each in asks if each.request is not None]
        for _ in proposed:
            halts.at(f"{kept_point(MoveProposed.TYPE)} before")
        await ask(self, asks)
        for _ in proposed:
            halts.at(f"{kept_point(MoveProposed.TYPE)} after")

    KeyedMigrationStore.answer = answering  # type: ignore[method-assign] # the point
    KeyedMigrationStore.ask = asking  # type: ignore[method-assign] # the point


def _in_plans(halts: Halts) -> None:
    save_plan = KeyedCycleUnit.save_plan
    states: dict[int, list[str]] = {}

    async def saving(self: KeyedCycleUnit, plan: KeptPlan) -> None:
        await save_plan(self, plan)
        if plan.steps:
            states.setdefault(id(self), []).append(plan_point(plan.state))

    def halting(begin: Any) -> Any:
        @asynccontextmanager
        async def transaction(self: KeyedCycleStore) -> AsyncIterator[CycleUnit]:
            async with begin(self) as unit:
                yield unit
                points = states.pop(id(unit), [])
                for point in points:
                    halts.at(f"{point} before")
            for point in points:
                halts.at(f"{point} after")

        return transaction

    KeyedCycleUnit.save_plan = saving  # type: ignore[method-assign] # the point
    KeyedCycleStore.decide = halting(KeyedCycleStore.decide)  # type: ignore[method-assign] # the point
    KeyedCycleStore.observe = halting(KeyedCycleStore.observe)  # type: ignore[method-assign] # the point


def _in_relays(halts: Halts) -> None:
    whole = OutboxRelay.__init__

    def built(self: OutboxRelay, dsn: str, service: str, publish: Any, *rest: Any, **named: Any) -> None:
        async def halting(event: Written) -> None:
            points = _points_of(service, event)
            for point in points:
                halts.at(f"{point} before")
            await publish(event)
            for point in points:
                halts.at(f"{point} after")

        whole(self, dsn, service, halting, *rest, **named)

    OutboxRelay.__init__ = built  # type: ignore[method-assign] # the point


def _points_of(service: str, event: Written) -> list[str]:
    name = event.type.removesuffix(".v1")
    if name != IntentDeclared.TYPE:
        return [] if BESIDE in event.subject else [publish_point(service, name)]
    document = event.event().data
    return [declared_point(what) for what in ("evictions", "starts") if getattr(document, what)]
