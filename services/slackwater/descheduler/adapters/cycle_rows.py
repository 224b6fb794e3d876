"""Cycles and moves in the schema `descheduler`, as keyed rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.descheduler.domain.cycle_state import OWNER_KEY, ProfileCycle, WorkloadMove
from slackwater.descheduler.domain.kept_plans import KeptPlan, PlanState
from slackwater.descheduler.ports import CYCLES, MOVES, PLANS, CycleUnit
from slackwater.events.envelope import Event
from slackwater.model.identifiers import partition_of
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine

_CYCLE: Final = TypeAdapter(ProfileCycle)
_PLAN: Final = TypeAdapter(KeptPlan)


def _cycle_of(row: Any) -> ProfileCycle:
    cycle = _CYCLE.validate_python({**row.document, "generation": row.generation})
    if cycle.profile != row.profile:
        raise ValueError(f"the row is of profile {row.profile}, its document of {cycle.profile}")
    return cycle


def _plan_of(row: Any) -> KeptPlan:
    plan = _PLAN.validate_python({**row.document, "generation": row.generation})
    if (plan.id, plan.state.value) != (row.id, row.state):
        raise ValueError(f"the row is {row.id} in state {row.state}, its document {plan.id} in {plan.state.value}")
    return plan


CYCLE_ROWS: Final = KeyedTable[ProfileCycle](
    name=CYCLES,
    key="profile",
    kind="profile cycle",
    version="generation",
    version_of=lambda cycle: cycle.generation,
    columns=(RowColumn("document", "jsonb"),),
    key_of=lambda cycle: cycle.profile,
    encode=lambda cycle: (_CYCLE.dump_json(cycle).decode(),),
    decode=_cycle_of,
    of_nodes=False,
    touched="changed_at",
)
MOVE_ROWS: Final = KeyedTable[WorkloadMove](
    name=MOVES,
    key="pod_uid",
    kind="workload move",
    columns=(
        RowColumn("workload", "text"),
        RowColumn("moved_at_s", "double precision"),
        RowColumn("target", "text"),
        RowColumn("until_s", "double precision"),
        RowColumn("job", "text"),
    ),
    key_of=lambda move: move.pod_uid,
    encode=lambda move: (move.workload, move.moved_at_s, move.target, move.until_s, move.job),
    decode=lambda row: WorkloadMove(row.pod_uid, row.workload, row.moved_at_s, row.target, row.until_s, row.job),
    newer="moved_at_s",
    of_nodes=False,
)
PLAN_ROWS: Final = KeyedTable[KeptPlan](
    name=PLANS,
    key="id",
    kind="move plan",
    version="generation",
    version_of=lambda plan: plan.generation,
    columns=(RowColumn("state", "text"), RowColumn("document", "jsonb")),
    key_of=lambda plan: plan.id,
    encode=lambda plan: (plan.state.value, _PLAN.dump_json(plan).decode()),
    decode=_plan_of,
    of_nodes=False,
    touched="changed_at",
    group="state",
)


class KeyedCycleStore:
    """slackwater.descheduler.ports.CycleStore."""

    def __init__(self, fenced: Database, unfenced: Database, quarantine: Quarantine) -> None:
        self._fenced = fenced
        self._unfenced = unfenced
        self._quarantine = quarantine

    @asynccontextmanager
    async def decide(self) -> AsyncIterator[CycleUnit]:
        async with self._fenced.unit_of_work() as unit:
            unit.concerns_partition(partition_of(OWNER_KEY))
            yield KeyedCycleUnit(unit, self._quarantine)

    @asynccontextmanager
    async def observe(self) -> AsyncIterator[CycleUnit]:
        async with self._unfenced.unit_of_work() as unit:
            yield KeyedCycleUnit(unit, self._quarantine)


class KeyedCycleUnit:
    """slackwater.descheduler.ports.CycleUnit."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._cycles = unit.keyed(CYCLE_ROWS, quarantine)
        self._moves = unit.keyed(MOVE_ROWS, quarantine)
        self._plans = unit.keyed(PLAN_ROWS, quarantine)

    async def cycle(self, profile: str) -> ProfileCycle:
        found: Mapping[str, ProfileCycle] = await self._cycles.read([profile])
        return found.get(profile, ProfileCycle(profile))

    async def moves(self) -> Sequence[WorkloadMove]:
        return list((await self._moves.read_all()).values())

    async def save(self, cycle: ProfileCycle) -> None:
        await self._cycles.replace(replace(cycle, generation=cycle.generation + 1), cycle.generation)

    async def add_moves(self, moves: Sequence[WorkloadMove]) -> None:
        if moves:
            await self._moves.write(moves)

    async def drop(self, pod_uids: Collection[str], profiles: Collection[str]) -> None:
        if pod_uids:
            await self._moves.remove(pod_uids)
        if profiles:
            await self._cycles.remove(profiles)

    async def plan(self, plan: str) -> KeptPlan | None:
        return (await self._plans.read([plan])).get(plan)

    async def plans(self, state: PlanState | None = None) -> Sequence[KeptPlan]:
        found = await (self._plans.read_all() if state is None else self._plans.read_group(state.value))
        return sorted(found.values(), key=lambda plan: (plan.made_s, plan.id))

    async def save_plan(self, plan: KeptPlan) -> None:
        await self._plans.replace(replace(plan, generation=plan.generation + 1), plan.generation)

    async def drop_plans(self, plans: Collection[str]) -> None:
        if plans:
            await self._plans.remove(plans)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)
