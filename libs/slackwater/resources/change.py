"""Changes of resources: checked with all the others, stored in a new generation, then followed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from slackwater.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from slackwater.resources.history import ResourceHistory, history_of
from slackwater.resources.hooks import Hooks, InForce, R, V
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kind import Kind, Unique
from slackwater.resources.names import CLUSTER_AUTHOR
from slackwater.resources.store import ResourceStore, StoredResource, refuse_stale, row_of, with_row


@dataclass(frozen=True, slots=True)
class Change(Generic[R, V]):
    """A change that was made, or with a dry run would be.

    document  as it is stored (None: deleted)
    before    what was stored (empty: nothing)
    would     of a dry run: what would be in force
    warning   why this replica does not follow it yet, although it is stored
    notice    what its author is to know of it, such as that it has no effect yet
    """

    document: R | None
    before: Mapping[str, Any]
    would: InForce[R, V] | None = None
    warning: str = ""
    notice: str = ""

    @property
    def is_new(self) -> bool:
        return not self.before

    @property
    def after(self) -> Mapping[str, Any]:
        return {} if self.document is None else self.document.document()


class ChangeResources(Generic[R, V]):
    """Reads and changes the resources of one kind. No change is stored that would leave any of them unusable."""

    def __init__(
        self,
        kind: Kind,
        store: ResourceStore,
        in_force: ResourcesInForce[R, V],
        hooks: Hooks[R, V],
        follow: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`follow` makes this replica follow what was stored; by default it reads the documents again. If it fails, the
        notification of the store makes the replica try again."""
        self.kind = kind
        self.in_force = in_force
        self.hooks = hooks
        self._store = store
        self._follow = follow or in_force.catch_up

    async def all(self) -> Sequence[R]:
        """Every document that can be shown, the parent first, then by name. Raises Unavailable."""
        rows = sorted(await self._store.read_all(), key=lambda row: (row.name != self.kind.parent, row.name))
        found = [self._shown(row) for row in rows if row.document is not None]
        shown = await self._with_status([document for document in found if document is not None])
        return [*shown, *(await self.hooks.made())]

    async def read(self, name: str) -> R:
        """As it is stored, whichever replica has changed it. Raises NotFound, Unavailable, InvalidInput if it cannot be
        read."""
        row = row_of(await self._store.read_all(), name)
        if row.document is None:
            made = next((document for document in await self.hooks.made() if document.name == name), None)
            if made is None:
                raise self._not_found(name)
            return made
        shown = self._shown(row)
        return (await self._with_status([self.in_force.read(row) if shown is None else shown]))[0]

    async def generation(self, name: str) -> int:
        """The stored generation, whether the document can be read or not. Raises NotFound, Unavailable."""
        row = row_of(await self._store.read_all(), name)
        if row.document is None:
            if any(document.name == name for document in await self.hooks.made()):
                return 0
            raise self._not_found(name)
        return row.generation

    async def history(self, name: str) -> ResourceHistory:
        """Its kept generations, also of a resource that is deleted. Raises NotFound, Unavailable."""
        kept = await self._store.history(name)
        if not kept and row_of(await self._store.read_all(), name).document is None:
            raise self._not_found(name)
        return history_of(kept)

    async def put(self, wanted: R, *, by: str = "", dry_run: bool = False) -> Change[R, V]:
        """Store a document in its next generation. A spec that is the same changes nothing.

        Raises InvalidInput for what cannot be used, Conflict for another generation than the stored one or a value
        that must be unique.
        """
        (change,) = await self.put_all([wanted], by=by, dry_run=dry_run)
        return change

    async def put_all(self, wanted: Sequence[R], *, by: str = "", dry_run: bool = False) -> Sequence[Change[R, V]]:
        """Store several, each checked with all the others in place: all of them, or none. Raises as `put`."""
        self._refuse_doubles(wanted)
        prepared = await self.hooks.prepare()
        async with self._store.changing() as transaction:
            rows = list(await transaction.read_all())
            stored = rows
            staged = [self._staged(document, row_of(rows, document.name), by) for document in wanted]
            for each in staged:
                rows = with_row(rows, each.row)
            for document in wanted:
                self._refuse_taken(document, rows)
                self.in_force.check(document, rows)
            would = self.in_force.as_if(rows, {each.row.name: each.document for each in staged if each.is_changed})
            self.hooks.validate_together([each.row.name for each in staged], self.in_force.now, would, prepared)
            notice = self._notice(staged, would)
            if dry_run:
                return [Change(each.document, each.before, would, notice=notice) for each in staged]
            changed = [each.row for each in staged if each.is_changed]
            await self.hooks.confirm(transaction.unit, [row_of(stored, row.name) for row in changed], would)
            for row in changed:
                await transaction.save(row)
        warning = await self._try_to_follow() if any(each.is_changed for each in staged) else ""
        shown: Sequence[R] = [each.document for each in staged]
        try:
            shown = await self._with_status(shown)
        except Unavailable as error:
            warning = warning or f"stored; the status is not known: {error.message}"
        return [
            Change(document, each.before, warning=warning, notice=notice)
            for document, each in zip(shown, staged, strict=True)
        ]

    def _notice(self, staged: Sequence[_Staged[R]], would: InForce[R, V]) -> str:
        noticed = (self.hooks.notice(would.values[each.row.name]) for each in staged if each.row.name in would.values)
        return "; ".join(filter(None, noticed))

    async def delete(self, name: str, *, by: str = "", generation: int = 0, dry_run: bool = False) -> Change[R, V]:
        """Delete a document, or withdraw one that the service made. Raises NotFound, and Conflict for the parent or
        another generation than the stored one (0: any).

        The parent is always there. Where a cluster is the source of documents its resource may go: then the parent is
        what the settings make again. Raises InvalidInput if another document could not be used with it.
        """
        try:
            return await self._delete_stored(name, by, generation, dry_run=dry_run)
        except NotFound:
            made = await self.hooks.withdraw(name, dry_run=dry_run)
            if made is None:
                raise
            return Change(None, made.document())

    async def _delete_stored(self, name: str, by: str, generation: int, *, dry_run: bool) -> Change[R, V]:
        prepared = await self.hooks.prepare()
        async with self._store.changing() as transaction:
            rows = await transaction.read_all()
            present = row_of(rows, name)
            if present.document is None:
                raise self._not_found(name)
            refuse_stale(generation, present)
            first = self._first_of(name, by)
            if first is not None:
                self.in_force.check(first, rows)
                first = first.with_generation(present.generation + 1)
            after = StoredResource(name, present.generation + 1, first.stored() if first else None, deleted_by=by)
            would = self.in_force.as_if(with_row(rows, after))
            self.hooks.validate_together([name], self.in_force.now, would, prepared)
            if dry_run:
                return Change(first, present.document, would)
            await self.hooks.confirm(transaction.unit, [present], would)
            await transaction.save(after)
        return Change(first, present.document, warning=await self._try_to_follow())

    async def _try_to_follow(self) -> str:
        """A warning if that fails: what is stored stays stored, so an error would be wrong."""
        try:
            await self._follow()
        except (Conflict, Unavailable) as error:
            return f"stored, but not followed yet: {error.message}"
        return ""

    def _shown(self, row: StoredResource) -> R | None:
        try:
            return self.in_force.read(row)
        except InvalidInput:  # health and metrics name it; PUT and DELETE mend it
            return self.hooks.stand_in(row, self.in_force.now)

    async def _with_status(self, documents: Sequence[R]) -> Sequence[R]:
        return await self.hooks.with_status(documents, self.in_force.now)

    def _staged(self, wanted: R, present: StoredResource, author: str) -> _Staged[R]:
        """Raises Conflict for another generation than the stored one."""
        refuse_stale(wanted.metadata.generation, present)
        stored = wanted.changed_to(present.generation + 1, author)
        document: R | None = None
        try:
            document = None if present.document is None else self.in_force.read(present)
        except InvalidInput:
            document = None
        before = (present.document or {}) if document is None else document.stored()
        if document is not None and before["spec"] == stored.stored()["spec"]:
            return _Staged(document, present, before, is_changed=False)
        return _Staged(stored, StoredResource(stored.name, present.generation + 1, stored.stored()), before)

    def _refuse_doubles(self, wanted: Sequence[R]) -> None:
        names = [document.name for document in wanted]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(
                    f"{self.kind.noun} {name} is given twice; leave one of them out", field="metadata.name"
                )

    def _refuse_taken(self, wanted: R, rows: Sequence[StoredResource]) -> None:
        unique = self.kind.unique
        value = None if unique is None else getattr(wanted, unique.attribute)
        if unique is None or value is None:
            return
        for row in rows:
            if row.document is not None and row.name != wanted.name and self._value_of(row, unique) == value:
                raise Conflict(
                    f"{unique.field}: {unique.noun} {value!r} has the document {row.name}; change that one, or delete"
                    " it first",
                    code=unique.code,
                    field=unique.field,
                )

    def _value_of(self, row: StoredResource, unique: Unique) -> Any:
        try:
            return getattr(self.in_force.read(row), unique.attribute)
        except InvalidInput:
            return None

    def _first_of(self, name: str, by: str) -> R | None:
        """What takes the place of a deleted document: of the parent what the settings make, of others nothing. Raises
        Conflict for a parent that stays."""
        if self.kind.parent and name == self.kind.parent:
            first = self.hooks.first() if by == CLUSTER_AUTHOR else None
            if first is not None:
                return first
            raise Conflict(
                f"{self.kind.noun} {name} cannot be deleted: {self.kind.parent_remedy}",
                code=self.kind.code("needed"),
            )
        return None

    def _not_found(self, name: str) -> NotFound | Unavailable:
        if self.kind.parent and name == self.kind.parent:
            return Unavailable(f"{self.kind.noun} {name} has not been stored yet")
        said = f"{self.kind.noun} {name!r} does not exist; GET {self.kind.path} lists all"
        return NotFound(said, code=self.kind.code("not_found"))


@dataclass(frozen=True, slots=True)
class _Staged(Generic[R]):
    """A document as it would be stored; `row` is the present one where nothing changes."""

    document: R
    row: StoredResource
    before: Mapping[str, Any]
    is_changed: bool = True
