"""Versioned documents of operators: what is kept of each, where, and which generation may be written over.

A deleted document leaves its row with the generation it had, so that a generation never means two things.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from slackwater.model.errors import Conflict


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it was written. `document` None: it was deleted; its generations go on from here. `changed_at` is
    when the store took this generation (None: it was not read from there)."""

    name: str
    generation: int
    document: Mapping[str, Any] | None
    changed_at: datetime | None = field(default=None, compare=False)


class DocumentTransaction(Protocol):
    """One transaction on the documents of one kind."""

    async def documents(self) -> Sequence[StoredDocument]:
        """All there are and all there were, by name. Nobody else writes any until the transaction ends."""
        ...

    async def save(self, document: StoredDocument) -> None:
        """The next generation of a document (1: the first), and news of it to every replica. Raises Conflict."""
        ...


class DocumentStore(Protocol):
    """Where the documents of one kind are. Raises Unavailable while the store does not answer."""

    def changing(self) -> AbstractAsyncContextManager[DocumentTransaction]: ...

    async def documents(self) -> Sequence[StoredDocument]:
        """As they are now, by name."""
        ...


class DocumentMeter(Protocol):
    """What operators watch of the documents of one kind."""

    def policies(self, followed: int, unusable: int) -> None:
        """How many documents are followed as they are stored, and how many cannot be."""
        ...


def row_of(rows: Sequence[StoredDocument], name: str) -> StoredDocument:
    """The document of this name, as never written if there is none."""
    return next((row for row in rows if row.name == name), StoredDocument(name, 0, None))


def refuse_old(generation: int, present: StoredDocument) -> None:
    """Raises Conflict unless `generation` (0: any) is the one that is stored."""
    if generation not in (0, present.generation) or (generation and present.document is None):
        now = "nothing" if present.document is None else present.generation
        raise Conflict(
            f"metadata.generation: {generation} was read, {now} is stored; read it again and apply your change to that"
        )


def _generation_by_settings(row: StoredDocument | None, author: str, spec: Mapping[str, Any]) -> int | None:
    """The generation in which the document that settings make is to be stored; None: somebody else wrote it, or it is
    there already."""
    if row is None:
        return 1
    document = row.document or {}
    metadata = document.get("metadata")
    is_ours = isinstance(metadata, dict) and metadata.get("changedBy") == author
    return row.generation + 1 if is_ours and document.get("spec") != spec else None


async def keep_settings(
    store: DocumentStore, name: str, author: str, document_at: Callable[[int], Mapping[str, Any]]
) -> None:
    """Store what the settings say as the document `name`, while nobody but `author` has written it.

    `document_at` gives it as it is stored in a generation. Raises Unavailable.
    """
    try:
        async with store.changing() as transaction:
            row = next((row for row in await transaction.documents() if row.name == name), None)
            generation = _generation_by_settings(row, author, document_at(1)["spec"])
            if generation is not None:
                await transaction.save(StoredDocument(name, generation, document_at(generation)))
    except Conflict:  # another replica has just stored its own
        pass
