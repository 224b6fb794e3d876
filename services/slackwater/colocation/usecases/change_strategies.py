"""On a new, changed or removed ColocationStrategy: checked with all that stand on it, tried or stored, and followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.colocation.ports import Followers, FollowerStore
from slackwater.colocation.usecases.colocation_strategy import CLUSTER, ColocationStrategy
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce, document_of
from slackwater.colocation.usecases.strategy_set import StrategySet
from slackwater.model.errors import Conflict, InvalidInput, NotFound
from slackwater.model.records import record
from slackwater.runtime.documents import DocumentStore, StoredDocument, refuse_old, row_of

MOST_PROBLEMS = 10
"""Nodes whose words cannot be used that a status names; it counts all of them."""


@record(frozen=True, slots=True)
class Change:
    """What was (or would be) stored (None: it is gone), what was there before (empty: nothing), and, of a change that
    was only tried, what nodes would follow."""

    document: ColocationStrategy | None
    before: Mapping[str, Any]
    would: StrategySet | None = None

    @property
    def is_new(self) -> bool:
        return not self.before


class ChangeStrategies:
    """The documents of the cluster and its pools. None is stored that would leave any of them without being usable."""

    def __init__(self, store: DocumentStore, in_force: StrategiesInForce, nodes: FollowerStore) -> None:
        self._store = store
        self._in_force = in_force
        self._nodes = nodes

    @property
    def in_force(self) -> StrategiesInForce:
        return self._in_force

    async def all(self) -> Sequence[ColocationStrategy]:
        """Every document, the cluster's first. Raises Unavailable."""
        counts = await self._nodes.followers(MOST_PROBLEMS)
        rows = [row for row in await self._store.documents() if row.document is not None]
        found = [self._shown(self._in_force.shown(row), counts) for row in rows]
        return sorted(found, key=lambda one: (not one.is_clusters, one.metadata.name))

    async def read(self, name: str) -> ColocationStrategy:
        """As it is stored, whichever replica has changed it. Raises NotFound, Unavailable."""
        for row in await self._store.documents():
            if row.name == name and row.document is not None:
                return self._shown(self._in_force.shown(row), await self._nodes.followers(MOST_PROBLEMS))
        raise _not_found(name)

    async def put(self, wanted: ColocationStrategy, *, by: str = "", dry_run: bool = False) -> Change:
        """The document as it is (or with `dry_run` would be) stored. A spec that is the same changes nothing.

        Raises InvalidInput for what cannot be used, Conflict for another generation than the present one.
        """
        (change,) = await self.put_all([wanted], by=by, dry_run=dry_run)
        return change

    async def put_all(
        self, wanted: Sequence[ColocationStrategy], *, by: str = "", dry_run: bool = False
    ) -> Sequence[Change]:
        """Several at once, each checked with all the others in place: all of them are stored, or none. Raises as `put`.

        What nodes would follow (`would`) is the same for each: with all of them."""
        _refuse_doubles(wanted)
        async with self._store.changing() as transaction:
            rows = list(await transaction.documents())
            found = [_staged(each, row_of(rows, each.metadata.name), by) for each in wanted]
            for staged in found:
                rows = _replaced(rows, staged.row)
            for each in wanted:
                self._check(each, rows)
            if dry_run:
                would = self._in_force.as_if(rows)
                return [Change(staged.document, staged.before, would) for staged in found]
            for staged in found:
                if staged.is_changed:
                    await transaction.save(staged.row)
        await self._in_force.catch_up()
        counts = await self._nodes.followers(MOST_PROBLEMS)
        return [Change(self._shown(staged.document, counts), staged.before) for staged in found]

    async def delete(self, name: str, *, generation: int = 0, dry_run: bool = False) -> Change:
        """The document is (or would be) gone: its nodes follow the cluster's, or another one that selects them.

        Raises NotFound, and Conflict for another generation than the present one (0: any) or for the cluster's own.
        """
        async with self._store.changing() as transaction:
            rows = await transaction.documents()
            present = row_of(rows, name)
            if present.document is None:
                raise _not_found(name)
            refuse_old(generation, present)
            if name == CLUSTER:
                raise Conflict(
                    f"colocationstrategy {CLUSTER}: every node stands on it; change it with PUT instead"
                    " (enable: false offers nothing anywhere)",
                    code="colocationstrategy_needed",
                )
            gone = StoredDocument(name, present.generation + 1, None)
            if dry_run:
                return Change(None, present.document, self._in_force.as_if(_replaced(rows, gone)))
            await transaction.save(gone)
        await self._in_force.catch_up()
        return Change(None, present.document)

    def _check(self, wanted: ColocationStrategy, rows: Sequence[StoredDocument]) -> None:
        """That it can be used, and if it is the cluster's, so can all that stand on it."""
        if not wanted.is_clusters:
            try:
                self._in_force.check(wanted, self._in_force.cluster_of(rows))
            except InvalidInput as error:
                said = f"{error.message} (colocationstrategy {wanted.metadata.name})"
                raise InvalidInput(said, code=error.code, field=error.field) from None
            return
        cluster = self._in_force.check(wanted).spec
        for row in rows:
            if row.document is None or row.name in (CLUSTER, *self._in_force.problems):
                continue
            try:
                self._in_force.check(document_of(row), cluster)
            except InvalidInput as error:
                raise InvalidInput(
                    f"colocationstrategy {row.name}, which stands on this one, could not be used any more: "
                    f"{error.message}",
                    code=error.code,
                    field=error.field,
                ) from None

    def _shown(self, document: ColocationStrategy, counts: Mapping[str, Followers]) -> ColocationStrategy:
        name = document.metadata.name
        source = "cluster" if name == CLUSTER else f"pool/{name}"
        return document.with_status(self._in_force.status_of(name, counts.get(source, Followers())))


@record(frozen=True, slots=True)
class _Staged:
    """A document as it would be stored; `row` is what is there already where nothing changes."""

    document: ColocationStrategy
    row: StoredDocument
    before: Mapping[str, Any]
    is_changed: bool


def _staged(wanted: ColocationStrategy, present: StoredDocument, by: str) -> _Staged:
    """Raises Conflict for another generation than the present one."""
    refuse_old(wanted.metadata.generation, present)
    before = present.document or {}
    stored = wanted.changed_to(present.generation + 1, by)
    if before.get("spec") == stored.stored()["spec"]:
        return _Staged(document_of(present), present, before, is_changed=False)
    row = StoredDocument(stored.metadata.name, present.generation + 1, stored.stored())
    return _Staged(stored, row, before, is_changed=True)


def _refuse_doubles(wanted: Sequence[ColocationStrategy]) -> None:
    names = [one.metadata.name for one in wanted]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"colocationstrategy {name} is given twice; leave one of them out", field="metadata.name"
            )


def _replaced(rows: Sequence[StoredDocument], wanted: StoredDocument) -> list[StoredDocument]:
    return [*(row for row in rows if row.name != wanted.name), wanted]


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"colocationstrategy {name!r} does not exist; GET /v1/colocationstrategies lists all",
        code="colocationstrategy_not_found",
    )
