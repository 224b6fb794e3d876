"""Jobs, reservations, asks and answers in the schema `migration`, as keyed rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from slackwater.events.envelope import Event
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.domain.stored_jobs import (
    ARBITRATION,
    ArbitrationState,
    EvictionAnswer,
    GrantAnswer,
    MigrationLedger,
    NodeDocument,
    StoredJob,
    StoredReservation,
    TakenPod,
)
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, MigrationQueue
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine

T = TypeVar("T")
PAGE: Final = 500
DOCUMENT: Final = RowColumn("document", "jsonb")
_DOCUMENTS: Final = TypeAdapter(Mapping[str, NodeDocument])
_QUEUE: Final = TypeAdapter(MigrationQueue)
_TAKEN: Final = TypeAdapter(tuple[TakenPod, ...])
_STATE: Final = TypeAdapter(dict[str, Any])


class KeptAnswer:
    """A row of `answers`."""

    def __init__(self, key: str, at_s: float, said: EvictionAnswer | GrantAnswer) -> None:
        self.key = key
        self.at_s = at_s
        self.said = said


def _table(name: str, kind: str, model: type[T], key: str) -> KeyedTable[T]:
    """A table whose rows are a name and a document of this model."""
    adapter: TypeAdapter[T] = TypeAdapter(model)

    def decode(row: Any) -> T:
        value = adapter.validate_python(row.document)
        if getattr(value, key) != row.name:
            raise ValueError(f"the row is {row.name}, its document {getattr(value, key)}")
        return value

    return KeyedTable(
        name=name,
        key="name",
        kind=kind,
        columns=(DOCUMENT,),
        key_of=lambda value: str(getattr(value, key)),
        encode=lambda value: (adapter.dump_json(value).decode(),),
        decode=decode,
        of_nodes=False,
        touched="changed_at",
    )


def _state_document(state: ArbitrationState) -> str:
    buckets = [
        {"scope": scope.value, "name": name, "tokens": bucket.tokens, "at_s": bucket.at_s}
        for (scope, name), bucket in sorted(state.buckets.items())
    ]
    document = {
        "round_s": state.round_s,
        "queue": _QUEUE.dump_python(state.queue, mode="json"),
        "buckets": buckets,
        "documents": _DOCUMENTS.dump_python(state.documents, mode="json"),
    }
    if state.taken:
        document["taken"] = _TAKEN.dump_python(state.taken, mode="json")
    return _STATE.dump_json(document).decode()


def _state_of(row: Any) -> ArbitrationState:
    document = row.document
    buckets = {
        (LimiterScope(kept["scope"]), str(kept["name"])): LimiterBucket(float(kept["tokens"]), float(kept["at_s"]))
        for kept in document["buckets"]
    }
    round_s, queue = document["round_s"], _QUEUE.validate_python(document["queue"])
    return ArbitrationState(
        generation=row.generation,
        round_s=None if round_s is None else float(round_s),
        queue=replace(queue, jobs=tuple(queue.jobs)),
        buckets=buckets,
        documents=_DOCUMENTS.validate_python(document["documents"]),
        taken=_TAKEN.validate_python(document.get("taken", ())),
    )


STATE_ROWS: Final = KeyedTable[ArbitrationState](
    name="arbitration",
    key="name",
    kind="arbitration",
    version="generation",
    version_of=lambda state: state.generation,
    columns=(DOCUMENT,),
    key_of=lambda _: ARBITRATION,
    encode=lambda state: (_state_document(state),),
    decode=_state_of,
    of_nodes=False,
    touched="changed_at",
)
JOB_ROWS: Final = _table("jobs", "migration job", StoredJob, "name")
RESERVATION_ROWS: Final = _table("kept_reservations", "reservation", StoredReservation, "name")
ASK_ROWS: Final = _table("asks", "ask", JobAsk, "key")
_SAID: Final[TypeAdapter[EvictionAnswer | GrantAnswer]] = TypeAdapter(EvictionAnswer | GrantAnswer)
ANSWER_ROWS: Final = KeyedTable[KeptAnswer](
    name="answers",
    key="name",
    kind="answer",
    columns=(DOCUMENT, RowColumn("at_s", "double precision")),
    key_of=lambda kept: kept.key,
    encode=lambda kept: (_SAID.dump_json(kept.said).decode(), kept.at_s),
    decode=lambda row: KeptAnswer(row.name, float(row.at_s), _SAID.validate_python(row.document)),
    of_nodes=False,
)


class KeyedMigrationStore:
    """slackwater.migration.ports.MigrationStore. The generation of the row of arbitration keeps writers apart."""

    def __init__(self, database: Database, quarantine: Quarantine) -> None:
        self._database = database
        self._quarantine = quarantine

    async def load(self) -> MigrationLedger:
        async with self._database.unit_of_work() as unit:
            states = await unit.keyed(STATE_ROWS, self._quarantine).read([ARBITRATION])
            jobs = await unit.keyed(JOB_ROWS, self._quarantine).read_all()
            kept = await unit.keyed(RESERVATION_ROWS, self._quarantine).read_all()
        return MigrationLedger(states.get(ARBITRATION, ArbitrationState()), dict(jobs), dict(kept))

    async def commit(
        self,
        before: MigrationLedger,
        after: MigrationLedger,
        events: Sequence[Event[Any]],
        done: Collection[str] = (),
    ) -> MigrationLedger:
        state = replace(after.state, generation=before.state.generation + 1)
        changed = [replace(job, version=state.generation) for job in _changed(before.jobs, after.jobs)]
        async with self._database.unit_of_work() as unit:
            await unit.keyed(STATE_ROWS, self._quarantine).replace(state, before.state.generation)
            rows = unit.keyed(JOB_ROWS, self._quarantine)
            await rows.write(changed)
            await rows.remove(before.jobs.keys() - after.jobs.keys())
            kept = unit.keyed(RESERVATION_ROWS, self._quarantine)
            await kept.write(_changed(before.reservations, after.reservations))
            await kept.remove(before.reservations.keys() - after.reservations.keys())
            if done:
                await unit.keyed(ASK_ROWS, self._quarantine).remove(done)
            for event in events:
                await unit.publish(event)
        return replace(after, state=state, jobs={**after.jobs, **{job.name: job for job in changed}})

    async def generation(self) -> int:
        async with self._database.unit_of_work() as unit:
            column = await unit.keyed(STATE_ROWS, self._quarantine).column(ARBITRATION, "generation")
        return int(column or 0)

    async def jobs(self) -> Mapping[str, StoredJob]:
        async with self._database.unit_of_work() as unit:
            return await unit.keyed(JOB_ROWS, self._quarantine).read_all()

    async def reservations(self) -> Mapping[str, StoredReservation]:
        async with self._database.unit_of_work() as unit:
            return await unit.keyed(RESERVATION_ROWS, self._quarantine).read_all()

    async def asks(self) -> Mapping[str, JobAsk]:
        async with self._database.unit_of_work() as unit:
            return await unit.keyed(ASK_ROWS, self._quarantine).read_all()

    async def ask(self, asks: Sequence[JobAsk]) -> None:
        async with self._database.unit_of_work() as unit:
            rows = unit.keyed(ASK_ROWS, self._quarantine)
            known = await rows.read([ask.key for ask in asks])
            await rows.write([ask for ask in asks if ask.key not in known])

    async def answers(self, keys: Collection[str]) -> Sequence[EvictionAnswer | GrantAnswer]:
        async with self._database.unit_of_work() as unit:
            found = await unit.keyed(ANSWER_ROWS, self._quarantine).read(keys)
        return [kept.said for kept in found.values()]

    async def answer(self, said: EvictionAnswer | GrantAnswer) -> None:
        at_s = said.completed_s if isinstance(said, EvictionAnswer) else said.until_s
        async with self._database.unit_of_work() as unit:
            rows = unit.keyed(ANSWER_ROWS, self._quarantine)
            if not await rows.read([said.key]):
                await rows.write([KeptAnswer(said.key, at_s, said)])

    async def drop_answers(self, before_s: float) -> int:
        dropped, after = 0, ""
        while True:
            async with self._database.unit_of_work() as unit:
                rows = unit.keyed(ANSWER_ROWS, self._quarantine)
                page = await rows.page(after, PAGE)
                old = [key for key, kept in page.items() if kept.at_s < before_s]
                await rows.remove(old)
            dropped += len(old)
            if len(page) < PAGE:
                return dropped
            after = max(page)


def _changed(before: Mapping[str, T], after: Mapping[str, T]) -> list[T]:
    return [value for name, value in after.items() if value is not before.get(name) and value != before.get(name)]
