"""The resources that a replica follows: the stored documents, and the last good generation of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic

from slackwater.model.errors import InvalidInput, Misconfigured, NotFound
from slackwater.resources.hooks import Hooks, InForce, R, V
from slackwater.resources.kind import Kind
from slackwater.resources.store import ResourceMeter, ResourceStore, StoredResource, save_first


def read_row(kind: Kind, row: StoredResource) -> Any:
    """The document of a row, in its generation. Raises InvalidInput if it cannot be read, NotFound if deleted."""
    if row.document is None:
        raise NotFound(f"{kind.noun} {row.name} was deleted", code=kind.code("not_found"))
    return kind.model_of(row.name).parse_stored(row.document).with_generation(row.generation)


def resolve_all(
    kind: Kind,
    rows: Iterable[StoredResource],
    hooks: Hooks[R, V],
    before: InForce[R, V],
    parsed: Mapping[str, R] = MappingProxyType({}),
) -> InForce[R, V]:
    """What these rows come to. A document that cannot be read or used keeps its value of `before`; without one, its
    usable part counts (Hooks.partial), or it is left out.

    A generation never means two things, so a row in the generation of `before` is neither parsed nor resolved again,
    and a change costs what it changes: one of 1,042 quotas 4 ms of CPU instead of 170. `parsed` has the
    documents of rows that are not stored yet, by name.
    """
    rows = list(rows)
    stored = {row.name: row for row in rows if row.document is not None}
    values: dict[str, V] = {}
    documents: dict[str, R] = {}
    problems: dict[str, str] = {}
    for name in sorted(stored, key=lambda name: name != kind.parent):  # the parent first: the others inherit from it
        parent = values.get(kind.parent) if kind.inherits and name != kind.parent else None
        if name not in parsed and before.has(stored[name]):
            documents[name] = before.documents[name]
            if not kind.inherits or name == kind.parent or parent is before.values.get(kind.parent):
                values[name] = before.values[name]
                continue
        try:
            if name not in documents:
                documents[name] = parsed[name] if name in parsed else read_row(kind, stored[name])
            values[name] = hooks.accepted(hooks.resolve(documents[name], parent), stored[name])
        except (InvalidInput, Misconfigured) as error:  # of another version, or of something that is not installed here
            problems[name] = error.message
            if name in before.values:
                documents[name], values[name] = before.documents[name], before.values[name]
            elif (usable := hooks.partial(stored[name])) is not None:
                documents[name], values[name] = usable
    generations = {name: row.generation for name, row in stored.items()}
    gone = {row.name: row.generation for row in rows if row.document is None}
    return InForce(values, documents, problems, generations, gone)


class ResourcesInForce(Generic[R, V]):
    """The resources of one kind on this replica."""

    def __init__(
        self, kind: Kind, store: ResourceStore, hooks: Hooks[R, V], meter: ResourceMeter | None = None
    ) -> None:
        self.kind = kind
        self._store = store
        self._hooks = hooks
        self._meter = meter
        self._found: InForce[R, V] = InForce()
        self.is_loaded = False
        """Whether the documents have been read at least once."""
        self._on_change: list[Callable[[], None]] = []
        self._on_read: list[Callable[[Mapping[str, str]], None]] = []
        self._turn = asyncio.Lock()

    @property
    def now(self) -> InForce[R, V]:
        """What was read last; empty before the first load."""
        return self._found

    @property
    def problems(self) -> Mapping[str, str]:
        """By name of the document, why its newest generation is not followed."""
        return self._found.problems

    def on_change(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever something else is followed than before."""
        self._on_change.append(notify)

    def on_read(self, notify: Callable[[Mapping[str, str]], None]) -> None:
        """Call `notify` with the problems of all documents whenever they have been read."""
        self._on_read.append(notify)

    async def load(self) -> None:
        """Store the document that the settings make, complete the history, then follow what is stored.

        Raises Unavailable, and InvalidInput if the settings themselves cannot be used.
        """
        first = self._hooks.first()
        if first is not None:
            self._hooks.resolve(first, None)
            await save_first(self._store, first)
        await self._store.record_missing()
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read the documents again and follow them. Raises Unavailable; then everything stays as it was."""
        async with self._turn:
            before = self._found
            found = self.as_if(await self._store.read_all())
            if self._meter is not None:
                self._meter.policies(len(found.values.keys() - found.problems.keys()), len(found.problems))
            for notify_read in self._on_read:
                notify_read(found.problems)
            self._found, self.is_loaded = found, True
        if not found.is_same(before):
            for notify in self._on_change:
                notify()

    def as_if(self, rows: Iterable[StoredResource], parsed: Mapping[str, R] = MappingProxyType({})) -> InForce[R, V]:
        """What would be in force with these rows; `parsed` as in `resolve_all`."""
        return resolve_all(self.kind, rows, self._hooks, self._found, parsed)

    def read(self, row: StoredResource) -> R:
        """The document of a row. Raises as `read_row`."""
        document: R = self._found.documents[row.name] if self._found.has(row) else read_row(self.kind, row)
        return document

    def check(self, wanted: R, rows: Sequence[StoredResource]) -> None:
        """Refuse a document that cannot be used with the others in place; of the parent also one with which a document
        that inherits from it could not be used any more. Raises InvalidInput."""
        self._hooks.validate(wanted)
        parent = self.kind.parent if self.kind.inherits else ""
        if not parent or wanted.name != parent:
            above = self.as_if([row for row in rows if row.name == parent]).values.get(parent)
            try:
                self._hooks.resolve(wanted, above)
            except InvalidInput as error:
                said = f"{error.message} ({self.kind.noun} {wanted.name})"
                raise InvalidInput(said, code=error.code, field=error.field) from None
            return
        value = self._hooks.resolve(wanted, None)
        for row in rows:
            if row.document is not None and row.name not in (parent, *self.problems):
                self._check_child(row, value)

    def _check_child(self, row: StoredResource, parent: V) -> None:
        try:
            self._hooks.resolve(self.read(row), parent)
        except InvalidInput as error:
            raise InvalidInput(
                f"{self.kind.noun} {row.name}, which follows this one, could not be used any more: {error.message}",
                code=error.code,
                field=error.field,
            ) from None
