"""The store of resources: what is kept of each, and which generation may be written over.

A deleted resource leaves its row with the generation it had, so that a generation never means two things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from slackwater.model.errors import Conflict
from slackwater.resources.metadata import Resource

KEPT_GENERATIONS: Final = 20
"""Length of the history of each resource."""


@dataclass(frozen=True, slots=True)
class StoredResource:
    """A row. `document` None: deleted; generations go on from here. `changed_at`: when the store took this generation
    (None: the row was not read from a store). `deleted_by`: the author of a deletion; other authors are in the
    document."""

    name: str
    generation: int
    document: Mapping[str, Any] | None
    changed_at: datetime | None = field(default=None, compare=False)
    deleted_by: str = field(default="", compare=False)

    @property
    def author(self) -> str:
        """The author of this generation; empty if unknown."""
        metadata = self.document.get("metadata") if self.document is not None else {"changedBy": self.deleted_by}
        said = metadata.get("changedBy") if isinstance(metadata, Mapping) else ""
        return said if isinstance(said, str) else ""


@dataclass(frozen=True, slots=True)
class PastGeneration:
    """One generation in the history of a resource. `document` None: it was deleted."""

    generation: int
    document: Mapping[str, Any] | None
    author: str
    changed_at: datetime


class ResourceTransaction(Protocol):
    """One transaction on the resources of one kind. `unit` is that of the store (slackwater.store.port.UnitOfWork)."""

    @property
    def unit(self) -> Any: ...

    async def read_all(self) -> Sequence[StoredResource]:
        """All rows, by name, locked against other changes until the transaction ends."""
        ...

    async def save(self, row: StoredResource) -> None:
        """Store the next generation of a resource (1: the first) and its history, publish it, and notify every
        replica. Raises Conflict."""
        ...


class ResourceStore(Protocol):
    """Where the resources of one kind are kept. Raises Unavailable while the store does not answer."""

    def changing(self) -> AbstractAsyncContextManager[ResourceTransaction]: ...

    async def read_all(self) -> Sequence[StoredResource]:
        """As they are now, by name."""
        ...

    async def history(self, name: str) -> Sequence[PastGeneration]:
        """The last KEPT_GENERATIONS generations of a resource, the newest first."""
        ...

    async def record_missing(self) -> int:
        """Put present generations into the history that are not in it, and publish them; returns how many.

        A version without history stored them.
        """
        ...


class ResourceMeter(Protocol):
    """Metrics of the resources that a replica follows."""

    def policies(self, followed: int, unusable: int) -> None:
        """How many resources are followed as they are stored, and how many cannot be."""
        ...


def row_of(rows: Sequence[StoredResource], name: str) -> StoredResource:
    """The row of this name; generation 0 if there is none."""
    return next((row for row in rows if row.name == name), StoredResource(name, 0, None))


def with_row(rows: Sequence[StoredResource], row: StoredResource) -> list[StoredResource]:
    """The rows as they are after `row` is saved."""
    return [*(each for each in rows if each.name != row.name), row]


def refuse_stale(generation: int, present: StoredResource) -> None:
    """Raises Conflict unless `generation` (0: any) is the stored one."""
    if generation not in (0, present.generation) or (generation and present.document is None):
        stored = "nothing" if present.document is None else present.generation
        raise Conflict(
            f"metadata.generation: {generation} was read, {stored} is stored; read it again and apply your change to"
            " that"
        )


async def save_first(store: ResourceStore, first: Resource) -> None:
    """Store the document that the settings make, unless another author has written one. Raises Unavailable."""
    try:
        async with store.changing() as transaction:
            rows = {row.name: row for row in await transaction.read_all()}
            generation = _first_generation(rows.get(first.name), first)
            if generation is not None:
                document = first.with_generation(generation).stored()
                await transaction.save(StoredResource(first.name, generation, document))
    except Conflict:  # another replica has just stored its own
        pass


def _first_generation(row: StoredResource | None, first: Resource) -> int | None:
    """The generation in which to store `first`; None: it is there already, or another author wrote the present one."""
    if row is None:
        return 1
    document, author = row.document or {}, first.metadata.changed_by
    metadata = document.get("metadata")
    is_ours = bool(author) and isinstance(metadata, Mapping) and metadata.get("changedBy") == author
    return row.generation + 1 if is_ours and document.get("spec") != first.stored()["spec"] else None
