"""On a new, changed or removed PredictPolicy: checked as a whole with all that follow it, stored, followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.model.errors import Conflict, InvalidInput, NotFound
from slackwater.model.records import record
from slackwater.prediction.domain.policy import CLUSTER
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce, document_of, pools_taken
from slackwater.prediction.usecases.predict_policy import PredictPolicy
from slackwater.runtime.documents import DocumentStore, StoredDocument, refuse_old, row_of


@record(frozen=True, slots=True)
class Change:
    """What was (or would be) stored, what was there before (empty: nothing), and what of it differs in its spec."""

    document: PredictPolicy
    before: Mapping[str, Any]

    @property
    def is_new(self) -> bool:
        return not self.before


class ChangePolicies:
    """The documents of the cluster and its pools. None is stored that would leave any pool without a usable policy."""

    def __init__(self, store: DocumentStore, in_force: PoliciesInForce) -> None:
        self._store = store
        self._in_force = in_force

    async def all(self) -> Sequence[PredictPolicy]:
        """Every document that can be read, the cluster's first. Raises Unavailable."""
        found = []
        for row in await self._store.documents():
            if row.document is not None:
                try:
                    found.append(self._shown(document_of(row)))
                except InvalidInput:  # the metrics and the log name it; PUT and DELETE mend it
                    continue
        return sorted(found, key=lambda one: (one.metadata.name != CLUSTER, one.metadata.name))

    async def read(self, name: str) -> PredictPolicy:
        """As it is stored, whichever replica has changed it. Raises NotFound, Unavailable."""
        for row in await self._store.documents():
            if row.name == name and row.document is not None:
                return self._shown(document_of(row))
        raise _not_found(name)

    async def put(self, wanted: PredictPolicy, *, by: str = "", dry_run: bool = False) -> Change:
        """The document as it is (or with `dry_run` would be) stored. A spec that is the same changes nothing.

        Raises InvalidInput for what cannot be used, Conflict for another generation than the present one, or a pool
        that has a document already.
        """
        async with self._store.changing() as transaction:
            rows = await transaction.documents()
            present = row_of(rows, wanted.metadata.name)
            refuse_old(wanted.metadata.generation, present)
            _refuse_taken(wanted, rows)
            self._check(wanted, rows)
            before = present.document or {}
            stored = wanted.changed_to(present.generation + 1, by)
            if before.get("spec") == stored.stored()["spec"]:
                return Change(self._shown(document_of(present)), before)
            if not dry_run:
                await transaction.save(StoredDocument(stored.metadata.name, present.generation + 1, stored.stored()))
        if dry_run:
            return Change(stored, before)
        await self._in_force.catch_up()
        return Change(self._shown(stored), before)

    async def delete(self, name: str, *, generation: int = 0, dry_run: bool = False) -> Mapping[str, Any]:
        """The document that is (or would be) gone: its pool follows the cluster's from now on. Raises NotFound, and
        Conflict for another generation than the present one (0: any) or for the cluster's own document."""
        async with self._store.changing() as transaction:
            present = row_of(await transaction.documents(), name)
            if present.document is None:
                raise _not_found(name)
            refuse_old(generation, present)
            if name == CLUSTER:
                raise Conflict(
                    f"predictpolicy {CLUSTER}: every pool stands on it; change it with PUT instead",
                    code="predictpolicy_needed",
                )
            if not dry_run:
                await transaction.save(StoredDocument(name, present.generation + 1, None))
        if not dry_run:
            await self._in_force.catch_up()
        return present.document

    def _check(self, wanted: PredictPolicy, rows: Sequence[StoredDocument]) -> None:
        """That it can be used, and if it is the cluster's, so can all that follow it."""
        if wanted.pool is not None:
            self._in_force.check(wanted, self._in_force.cluster_of(rows))
            return
        cluster = self._in_force.check(wanted)
        for row in rows:
            if row.document is None or row.name in (CLUSTER, *self._in_force.problems):
                continue
            try:
                self._in_force.check(document_of(row), cluster)
            except InvalidInput as error:
                raise InvalidInput(
                    f"predictpolicy {row.name}, which follows this one, could not be used any more: {error.message}",
                    code=error.code,
                    field=error.field,
                ) from None

    def _shown(self, document: PredictPolicy) -> PredictPolicy:
        return document.with_status(self._in_force.status_of(document.metadata.name))


def _refuse_taken(wanted: PredictPolicy, rows: Sequence[StoredDocument]) -> None:
    holder = pools_taken(rows).get(wanted.pool) if wanted.pool is not None else None
    if holder is not None and holder != wanted.metadata.name:
        raise Conflict(
            f"spec.nodePool: pool {wanted.pool!r} has the document {holder}; change that one, or delete it first",
            code="node_pool_taken",
            field="spec.nodePool",
        )


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"predictpolicy {name!r} does not exist; GET /v1/predictpolicies lists all", code="predictpolicy_not_found"
    )
