"""The ledgers of facts and documents fail on a planted violation, and hold without it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.postgres_twin.values import Json
from tests.world.changes import OPERATOR, Confirmed
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.core.documents import HISTORY, DocumentsAreFoundOnce
from tests.world.invariants.core.ledger import FactsAreFoundOnce
from tests.world.plan import OUTBOXES, Plan, PlannedChange
from tests.world.servers import Commit
from tests.world.trace import Kind, Step

OFFER = "sw.v1.resources.offered.3.node-00"
OUTBOX = ("position", "id", "type", "subject", "headers", "payload", "created_at", "refused")
GENERATIONS = ("kind", "name", "generation", "document", "author", "changed_at")
AUTONOMIES = ("name", "generation", "document", "changed_at")
PUT = PlannedChange(5.0, "put", "Autonomy", "pool", {"mode": "evict"})
DELETE = PlannedChange(9.0, "delete", "Autonomy", "pool")


class Table:
    """Committed rows of some columns."""

    def __init__(self, *columns: str) -> None:
        self.definition = SimpleNamespace(names=columns)
        self.rows: list[tuple[Any, ...]] = []

    def committed(self) -> list[tuple[Any, ...]]:
        return self.rows


def _schemas() -> dict[str, Any]:
    columns = {"outbox": OUTBOX, HISTORY: GENERATIONS, "autonomies": AUTONOMIES}
    return {
        service: SimpleNamespace(tables={name: Table(*of_table) for name, of_table in columns.items()})
        for service in OUTBOXES
    }


@dataclass
class Books:
    """Commits, messages and confirmations by hand."""

    schemas: dict[str, Any] = field(default_factory=_schemas)
    changes: tuple[PlannedChange, ...] = (PUT, DELETE)
    invariant: Invariant | None = None

    def watch(self, invariant: type[Invariant]) -> Invariant:
        world: Any = SimpleNamespace(postgres=SimpleNamespace(schemas=self.schemas), plan=Plan(1), changes=self.changes)
        self.invariant = invariant(world)
        return self.invariant

    def step(self, kind: Kind, subject: str, value: Any = None, **detail: Any) -> None:
        assert self.invariant is not None
        self.invariant.on_step(Step(1, 0.0, "", kind, subject, "", detail, value))

    def commit(self, table: str, *rows: tuple[Any, ...], service: str = "ensurance") -> None:
        written: Any = {(table, number): (None, row) for number, row in enumerate(rows)}
        self.step(Kind.COMMITTED, service, Commit(service, f"{service}-0/1", self.schemas[service], written))

    def publish(self, identifier: str, subject: str = OFFER, service: str = "colocation") -> None:
        self.commit("outbox", (1, identifier, "resources.offered", subject, "{}", "", None, None), service=service)

    def store(self, identifier: str, subject: str = OFFER, source: str = "colocation") -> None:
        self.step(Kind.STORED, subject, SimpleNamespace(headers={"ce-source": source}), id=identifier)

    def generation(self, number: int, mode: str | None, author: str = OPERATOR) -> None:
        self.commit(HISTORY, ("Autonomy", "pool", number, _document(mode), author, None))
        self.schemas["ensurance"].tables["autonomies"].rows = [("pool", number, _document(mode), None)]

    def confirm(self, generation: int, mode: str) -> None:
        self.step(Kind.APPLIED, "Autonomy/pool", Confirmed(PUT, True, generation, {"mode": mode}))


def _document(mode: str | None) -> Json | None:
    return None if mode is None else Json({"spec": {"mode": mode}})


@pytest.fixture
def books() -> Books:
    return Books()


# facts


def test_facts_that_are_stored_once_hold_and_so_does_one_that_waits(books: Books) -> None:
    invariant = books.watch(FactsAreFoundOnce)
    books.publish("a")
    books.store("a")
    books.store("h", "sw.v1.health.reported.0.colocation-0")
    books.store("u", "sw.v1.usage.reported.0.node-00", source="agent")
    books.publish("b")
    books.schemas["colocation"].tables["outbox"].rows = [(2, "b", "", OFFER, "", "", None, None)]
    invariant.at_rest()


def test_a_fact_that_is_lost_is_found_at_rest(books: Books) -> None:
    invariant = books.watch(FactsAreFoundOnce)
    books.publish("a")
    with pytest.raises(Violation, match="was committed and never stored; 1 in all"):
        invariant.at_rest()


def test_a_fact_that_the_bus_refuses_is_found_at_rest(books: Books) -> None:
    invariant = books.watch(FactsAreFoundOnce)
    books.schemas["colocation"].tables["outbox"].rows = [(2, "b", "", OFFER, "", "", None, "too large")]
    with pytest.raises(Violation, match="too large"):
        invariant.at_rest()


def test_a_phantom_is_found(books: Books) -> None:
    books.watch(FactsAreFoundOnce)
    with pytest.raises(Violation, match="no service has committed it"):
        books.store("a")


def test_a_fact_under_the_subject_of_another_is_found(books: Books) -> None:
    books.watch(FactsAreFoundOnce)
    books.publish("a")
    with pytest.raises(Violation, match="it was committed as"):
        books.store("a", f"{OFFER}1")


def test_a_second_copy_is_found_unless_the_broker_lost_its_ids(books: Books) -> None:
    books.watch(FactsAreFoundOnce)
    books.publish("a")
    books.store("a")
    books.step(Kind.FAULT_BEGAN, "broker killed")
    books.store("a")
    books.step(Kind.FAULT_BEGAN, "crash")
    with pytest.raises(Violation, match="a second time"):
        books.store("a")


def test_a_fact_that_is_committed_again_is_the_same_fact(books: Books) -> None:
    books.watch(FactsAreFoundOnce)
    books.publish("a")
    books.publish("a")
    with pytest.raises(Violation, match="before as"):
        books.publish("a", f"{OFFER}1")


# documents


def test_documents_by_the_book_hold(books: Books) -> None:
    invariant = books.watch(DocumentsAreFoundOnce)
    books.generation(1, "throttle", author="")
    books.generation(2, "evict")
    books.confirm(2, "evict")
    books.confirm(2, "evict")  # the same again changes nothing
    books.generation(3, None)
    books.step(Kind.DELETED, "Autonomy/pool", Confirmed(DELETE, is_done=True))
    books.step(Kind.DELETED, "Autonomy/pool", Confirmed(DELETE))
    invariant.at_rest()


def test_a_confirmed_document_that_is_not_stored_is_found(books: Books) -> None:
    books.watch(DocumentsAreFoundOnce)
    with pytest.raises(Violation, match="generation 1 is confirmed and not committed"):
        books.confirm(1, "evict")
    books.generation(1, "throttle")
    with pytest.raises(Violation, match="is committed as"):
        books.confirm(1, "evict")
    with pytest.raises(Violation, match="1 deletions confirmed, 0 committed"):
        books.step(Kind.DELETED, "Autonomy/pool", Confirmed(DELETE, is_done=True))


def test_a_generation_that_is_committed_twice_or_skipped_is_found(books: Books) -> None:
    books.watch(DocumentsAreFoundOnce)
    books.generation(1, "evict")
    for wrong in (1, 3):
        with pytest.raises(Violation, match="expected: 2"):
            books.generation(wrong, "evict")


def test_a_change_that_no_operator_asked_for_is_found() -> None:
    books = Books(changes=(PUT,))
    books.watch(DocumentsAreFoundOnce)
    books.generation(1, "evict")
    with pytest.raises(Violation, match="2 generations with 1 changes"):
        books.generation(2, "evict")


def test_a_table_without_the_newest_document_is_found_at_rest(books: Books) -> None:
    invariant = books.watch(DocumentsAreFoundOnce)
    books.generation(1, "evict")
    books.schemas["ensurance"].tables["autonomies"].rows = []
    with pytest.raises(Violation, match="the table has"):
        invariant.at_rest()
