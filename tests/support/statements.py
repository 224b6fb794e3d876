"""Answers SQL statements of adapters over an in-memory database.

It is for services with SQL of their own; keyed rows do not need it. An answer is a function of the unit of work and the
statement's values, selected by a pattern for the statement's text. `answer_common` adds the statements of every
service: documents, quarantine, outbox, notifications.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Protocol


class StatementUnit(Protocol):
    """The part of tests.support.store.MemoryUnitOfWork that an answer needs."""

    def on_commit(self, effect: Callable[[], None]) -> None: ...


Answer = Callable[[StatementUnit, re.Match[str], Mapping[str, Any]], Sequence[Any]]
"""Returns the rows that a statement returns or changes. Registers its writes with `unit.on_commit`."""


class MemoryResult(Sequence[Any]):
    """The part of a SQLAlchemy result that adapters use."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = list(rows)
        self.rowcount = len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        (row,) = self._rows
        return row


@dataclass
class Answers:
    """Answers by pattern; the newest matching one applies."""

    known: list[tuple[re.Pattern[str], Answer]] = field(default_factory=list)

    def add(self, pattern: str, answer: Answer) -> None:
        self.known.insert(0, (re.compile(pattern, re.DOTALL), answer))

    def of(self, unit: StatementUnit, statement: str, values: Mapping[str, Any]) -> MemoryResult:
        text = " ".join(statement.split())
        for pattern, answer in self.known:
            if match := pattern.search(text):
                return MemoryResult(answer(unit, match, values))
        raise AssertionError(f"the in-memory database has no answer for: {text}")


class MemoryConnection:
    """The part of SQLAlchemy's AsyncConnection that adapters use."""

    def __init__(self, unit: StatementUnit, answers: Answers) -> None:
        self._unit = unit
        self._answers = answers

    async def execute(self, statement: Any, values: Mapping[str, Any] | None = None) -> MemoryResult:
        return self._answers.of(self._unit, str(statement), values or {})


def system_now() -> datetime:
    return datetime.now(UTC)


def answer_common(answers: Answers, announce: Callable[[], None], now: Callable[[], datetime] = system_now) -> None:
    """Add answers for the statements of every service. `announce` notifies its replicas, `now` is the server's time."""

    def notify(unit: StatementUnit, _: re.Match[str], __: Mapping[str, Any]) -> Sequence[Any]:
        unit.on_commit(announce)
        return ()

    answers.add(r"pg_notify", notify)
    answers.add(r"FROM outbox", lambda _, __, ___: ())
    _answer_documents(answers, now)
    _answer_quarantine(answers)


def _answer_documents(answers: Answers, now: Callable[[], datetime]) -> None:
    """By kind: its rows by name, and its history by name and generation."""
    kinds: dict[str, dict[str, SimpleNamespace]] = defaultdict(dict)
    histories: dict[str, dict[tuple[str, int], SimpleNamespace]] = defaultdict(dict)

    def read(_: StatementUnit, __: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        rows = kinds[values["kind"]]
        return [rows[name] for name in sorted(rows)]

    def write(unit: StatementUnit, _: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        rows, past, name = kinds[values["kind"]], histories[values["kind"]], values["name"]
        if (rows[name].generation if name in rows else 0) != values["generation"] - 1:
            return ()
        document = None if values["document"] is None else json.loads(values["document"])
        row = SimpleNamespace(
            name=name,
            generation=values["generation"],
            document=document,
            author=values["author"],
            changed_at=now(),
        )
        unit.on_commit(lambda: rows.update({name: row}))
        unit.on_commit(lambda: past.update({(name, row.generation): row}))
        return (row,)

    def history(_: StatementUnit, __: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        kept = [row for (name, _), row in sorted(histories[values["kind"]].items()) if name == values["name"]]
        return kept[::-1][: values["most"]]

    answers.add(r"^LOCK TABLE (\w+)", lambda _, __, ___: ())
    answers.add(r"^SELECT name, generation, document, .* ORDER BY name$", read)
    answers.add(r"^WITH saved AS \((INSERT|UPDATE) .*resource_history", write)
    answers.add(r"^INSERT INTO resource_history .* AS present", lambda _, __, ___: ())
    answers.add(r"^SELECT generation, document, author, .* FROM resource_history", history)


def _answer_quarantine(answers: Answers) -> None:
    rows: dict[str, SimpleNamespace] = {}

    def put(unit: StatementUnit, _: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        known = rows.get(values["id"])
        row = SimpleNamespace(**{**values, "is_new": known is None})
        if known is not None:
            row.since, row.count = known.since, known.count + values["count"]
        unit.on_commit(lambda: rows.update({values["id"]: row}))
        return (row,)

    def remove(unit: StatementUnit, _: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        row = rows.get(values["id"])
        if row is None:
            return ()
        unit.on_commit(lambda: rows.__delitem__(values["id"]))
        return (row,)

    answers.add(r"FROM quarantine ORDER BY", lambda _, __, ___: sorted(rows.values(), key=lambda row: row.since))
    answers.add(r"^INSERT INTO quarantine", put)
    answers.add(r"^DELETE FROM quarantine", remove)
