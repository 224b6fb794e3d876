"""On a new, changed or removed NodeQOS for some nodes, PodQOS, AvoidanceAction or Autonomy: stored, then followed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.ensurance.usecases.documents_in_force import (
    AUTONOMIES,
    NODES,
    Kind,
    Policy,
    document_of,
    pools_taken,
    with_metadata,
)
from slackwater.model.errors import Conflict, InvalidInput, NotFound
from slackwater.runtime.documents import DocumentStore, StoredDocument, refuse_old, row_of
from slackwater.waterline.nodeqos import CLUSTER
from slackwater.waterline.policies.grants import Autonomy


@dataclass(frozen=True, slots=True)
class Change:
    """What was (or would be) stored, and what was there before (empty: nothing)."""

    document: Policy
    before: Mapping[str, Any]

    @property
    def is_new(self) -> bool:
        return not self.before


class ChangeDocuments:
    """The documents of one kind. `follow` makes every node of ours follow what is stored."""

    def __init__(self, kind: Kind, store: DocumentStore, follow: Callable[[], Awaitable[object]]) -> None:
        self.kind = kind
        self._store = store
        self._follow = follow

    async def all(self) -> Sequence[Policy]:
        """Every document that can be read, by name. Raises Unavailable."""
        found = []
        for row in await self._store.documents():
            if row.document is not None:
                try:
                    found.append(document_of(self.kind, row))
                except InvalidInput:  # health names it; PUT and DELETE mend it
                    continue
        return found

    async def read(self, name: str) -> Policy:
        """As it is stored, whichever replica has changed it. Raises NotFound, Unavailable."""
        row = row_of(await self._store.documents(), name)
        if row.document is None:
            raise self._not_found(name)
        return document_of(self.kind, row)

    async def put(self, wanted: Policy, *, by: str = "", dry_run: bool = False) -> Change:
        """The document as it is (or with `dry_run` would be) stored. A spec that is the same changes nothing.

        Raises Conflict for another generation than the present one, or a pool that has an Autonomy already.
        """
        name = wanted.metadata.name
        async with self._store.changing() as transaction:
            rows = await transaction.documents()
            present = row_of(rows, name)
            refuse_old(wanted.metadata.generation, present)
            _refuse_taken(wanted, rows)
            before = present.document or {}
            stored = with_metadata(wanted, present.generation + 1, by)
            if before and before.get("spec") == stored.document()["spec"]:
                return Change(document_of(self.kind, present), before)
            if not dry_run:
                await transaction.save(StoredDocument(name, present.generation + 1, stored.document()))
        if not dry_run:
            await self._follow()
        return Change(stored, before)

    async def delete(self, name: str, *, generation: int = 0, dry_run: bool = False) -> Mapping[str, Any]:
        """The document that is (or would be) gone. Raises NotFound, Conflict for another generation than it has."""
        async with self._store.changing() as transaction:
            present = row_of(await transaction.documents(), name)
            if present.document is None:
                raise self._not_found(name)
            refuse_old(generation, present)
            if not dry_run:
                await transaction.save(StoredDocument(name, present.generation + 1, None))
        if not dry_run:
            await self._follow()
        return present.document

    def _not_found(self, name: str) -> NotFound:
        if self.kind is NODES and name == CLUSTER:
            raise Conflict(f"nodeqos {CLUSTER}: is the whole cluster's; it can be changed, and is always there")
        return NotFound(f"{self.kind.noun} {name!r} does not exist; GET {self.kind.path} lists all")


def _refuse_taken(wanted: Policy, rows: Sequence[StoredDocument]) -> None:
    if not isinstance(wanted, Autonomy):
        return
    holder = pools_taken(rows).get(wanted.pool)
    if holder is not None and holder != wanted.metadata.name:
        raise Conflict(
            f"spec.nodePool: pool {wanted.pool!r} has the {AUTONOMIES.noun} {holder}; change that one, or delete it",
            code="node_pool_taken",
            field="spec.nodePool",
        )
