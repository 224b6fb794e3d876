"""The ledger of documents: what an operator was told is stored is found exactly once, and nothing else is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.world.changes import OPERATOR, Confirmed
from tests.world.faults import ROLLED
from tests.world.invariants import Invariant, Violation
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.resources.catalog import kind_named

HISTORY = "resource_history"
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Generation:
    """`spec` is None where the document was deleted."""

    number: int
    spec: Mapping[str, Any] | None
    author: str


class DocumentsAreFoundOnce(Invariant):
    """Each generation of a document is committed once, one after the other. A confirmed one is committed with the spec
    that was confirmed; operators have caused no more than they asked for; at rest the newest one is in the table.

    A replica of the older version records no generation. The next start of a newer one records the newest."""

    NAME = "documents are found once"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.APPLIED, Kind.DELETED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._generations: dict[_Key, list[_Generation]] = {}
        self._deletions: Counter[_Key] = Counter()
        self._confirmed: dict[_Key, Confirmed] = {}
        """The newest confirmed generation of each document."""
        self._has_older = any(fault.kind == ROLLED.name for fault in world.plan.faults)

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            self._commit(step.value)
        elif step.value.is_done:
            self._confirm(step.value, is_deletion=step.kind is Kind.DELETED)

    def _commit(self, commit: Commit) -> None:
        for row in commit.inserted(HISTORY):
            self._add((row["kind"], row["name"]), _Generation(row["generation"], spec_of(row), row["author"]))

    def _add(self, key: _Key, made: _Generation) -> None:
        known = self._generations.setdefault(key, [])
        expected = known[-1].number + 1 if known else 1
        if made.number < expected or (made.number > expected and not self._has_older):
            raise Violation(f"{_text(key)}: generation {made.number} is committed; expected: {expected}")
        known.append(made)
        asked = [change for change in self.world.changes if (change.kind, change.name) == key]
        caused = [one for one in known if one.author == OPERATOR]
        if len(caused) > len(asked):
            raise Violation(f"{_text(key)}: operators made {len(caused)} generations with {len(asked)} changes")

    def _confirm(self, confirmed: Confirmed, *, is_deletion: bool) -> None:
        key = confirmed.planned.kind, confirmed.planned.name
        known = self._generations.get(key, [])
        if self._has_older:
            newest = self._confirmed.setdefault(key, confirmed)
            self._confirmed[key] = max(newest, confirmed, key=lambda one: one.generation)
            return
        if is_deletion:
            self._deletions[key] += 1
            deleted = sum(one.spec is None for one in known)
            if deleted < self._deletions[key]:
                raise Violation(f"{_text(key)}: {self._deletions[key]} deletions confirmed, {deleted} committed")
            return
        found = [one for one in known if one.number == confirmed.generation]
        if not found:
            raise Violation(f"{_text(key)}: generation {confirmed.generation} is confirmed and not committed")
        if found[0].spec != confirmed.spec:
            what = f"{found[0].spec}; confirmed: {confirmed.spec}"
            raise Violation(f"{_text(key)}: generation {confirmed.generation} is committed as {what}")

    def at_rest(self) -> None:
        for key, confirmed in self._confirmed.items():
            found = [(row["generation"], spec_of(row)) for row in self._rows(key)]
            wanted = confirmed.generation, confirmed.spec
            if confirmed.generation and not any(row[0] > wanted[0] or row == wanted for row in found):
                raise Violation(f"{_text(key)}: the table has {found}; confirmed: {wanted}")
        for key, known in self._generations.items():
            found = [(row["generation"], spec_of(row)) for row in self._rows(key)]
            if found != [(known[-1].number, known[-1].spec)]:
                raise Violation(f"{_text(key)}: the table has {found}; committed last: {known[-1]}")

    def _rows(self, key: _Key) -> list[dict[str, Any]]:
        kind = kind_named(key[0])
        table = self.world.postgres.schemas[kind.service].tables[kind.table or "resources"]
        rows = (dict(zip(table.definition.names, values, strict=True)) for values in table.committed())
        return [row for row in rows if row["name"] == key[1] and row.get("kind", key[0]) == key[0]]


def _text(key: _Key) -> str:
    return "/".join(key)


def spec_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The spec of a stored document; None where it was deleted."""
    if row["document"] is None:
        return None
    spec: Mapping[str, Any] = row["document"].content["spec"]
    return spec


INVARIANTS = (DocumentsAreFoundOnce,)
