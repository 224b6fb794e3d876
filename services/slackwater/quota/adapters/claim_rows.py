"""Trees, claims and uses in the schema `quota`, as keyed rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.events.envelope import Event
from slackwater.fairshare.claims import ENDED
from slackwater.quota.domain.ledger_records import KeptClaim, QuotaUse, StoredTree
from slackwater.quota.domain.past_trees import PastTree, before_key, is_of
from slackwater.quota.domain.reclaim_counts import ReclaimCount
from slackwater.quota.domain.reclaim_grant import ReclaimGrant
from slackwater.quota.ports import CLAIMS, ENDED_CLAIMS, PAST, TREES, USES
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine

PAGE: Final = 500
_KEPT: Final = TypeAdapter(KeptClaim)
_PAST: Final = TypeAdapter(PastTree)
_GRANT: Final = TypeAdapter(ReclaimGrant)
_COUNTS: Final = TypeAdapter(Mapping[str, ReclaimCount])
_DOCUMENT: Final = RowColumn("document", "jsonb")


def _tree_of(row: Any) -> StoredTree:
    over = {str(quota): float(since) for quota, since in row.document["over_since_s"].items()}
    grant = _GRANT.validate_python(row.document.get("grant", {}))
    reclaims = _COUNTS.validate_python(row.document.get("reclaims", {}))
    return StoredTree(row.tree, row.generation, over, grant, reclaims, int(row.document.get("quotas_revision", 0)))


def _tree_document(tree: StoredTree) -> str:
    document = {
        "over_since_s": dict(tree.over_since_s),
        "grant": _GRANT.dump_python(tree.grant, mode="json"),
        "reclaims": _COUNTS.dump_python(tree.reclaims, mode="json"),
        "quotas_revision": tree.quotas_revision,
    }
    return json.dumps(document)


def _claim_of(row: Any) -> KeptClaim:
    document = _KEPT.validate_python(row.document)
    if (document.claim.id, document.tree) != (row.id, row.tree):
        raise ValueError(
            f"the row is {row.id} of tree {row.tree!r}, its document {document.claim.id} of {document.tree!r}"
        )
    return document


def _claim_table(name: str) -> KeyedTable[KeptClaim]:
    return KeyedTable(
        name=name,
        key="id",
        kind="claim",
        version="version",
        version_of=lambda _: 1,
        columns=(RowColumn("tree", "text"), RowColumn("state", "text", write_only=True), _DOCUMENT),
        key_of=lambda stored: stored.claim.id,
        encode=lambda stored: (stored.tree, stored.claim.state.value, _KEPT.dump_json(stored).decode()),
        decode=_claim_of,
        of_nodes=False,
        group="tree",
        touched="changed_at",
    )


TREE_ROWS: Final = KeyedTable[StoredTree](
    name=TREES,
    key="tree",
    kind="quota tree",
    version="generation",
    version_of=lambda tree: tree.generation,
    columns=(_DOCUMENT,),
    key_of=lambda tree: tree.tree,
    encode=lambda tree: (_tree_document(tree),),
    decode=_tree_of,
    of_nodes=False,
    touched="changed_at",
)
CLAIM_ROWS: Final = _claim_table(CLAIMS)
ENDED_ROWS: Final = _claim_table(ENDED_CLAIMS)
USE_ROWS: Final = KeyedTable[QuotaUse](
    name=USES,
    key="quota",
    kind="quota",
    columns=(RowColumn("tree", "text"), RowColumn("used", "jsonb"), RowColumn("ceiling", "jsonb")),
    key_of=lambda use: use.quota,
    encode=lambda use: (use.tree, json.dumps(dict(use.used)), json.dumps(dict(use.ceiling))),
    decode=lambda row: QuotaUse(row.quota, row.tree, row.used, row.ceiling),
    of_nodes=False,
    touched="changed_at",
)


PAST_ROWS: Final = KeyedTable[PastTree](
    name=PAST,
    key="moment",
    kind="past tree",
    columns=(RowColumn("tree", "text"), _DOCUMENT),
    key_of=lambda past: past.moment,
    encode=lambda past: (past.tree, _PAST.dump_json(past).decode()),
    decode=lambda row: _PAST.validate_python(row.document),
    of_nodes=False,
)


class KeyedLedgerStore:
    """slackwater.quota.ports.LedgerStore. The generation of a tree keeps writers apart, not the partition: any replica
    may admit."""

    def __init__(self, database: Database, quarantine: Quarantine) -> None:
        self._database = database
        self._quarantine = quarantine

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[KeyedLedgerUnit]:
        async with self._database.unit_of_work() as unit:
            yield KeyedLedgerUnit(unit, self._quarantine)

    def joined(self, unit: UnitOfWork) -> KeyedLedgerUnit:
        return KeyedLedgerUnit(unit, self._quarantine)

    async def drop_ended(self, before_s: float) -> int:
        dropped, after = 0, ""
        while True:
            async with self._database.unit_of_work() as unit:
                rows = unit.keyed(ENDED_ROWS, self._quarantine)
                page = await rows.page(after, PAGE)
                old = [key for key, stored in page.items() if (stored.claim.ended_s or 0.0) < before_s]
                await rows.remove(old)
            dropped += len(old)
            if len(page) < PAGE:
                return dropped
            after = max(page)

    async def drop_past(self, tree: str, before_s: float) -> int:
        dropped, after = 0, before_key(tree, before_s)
        while True:
            async with self._database.unit_of_work() as unit:
                rows = unit.keyed(PAST_ROWS, self._quarantine)
                old = [key for key in await rows.page(after, PAGE) if is_of(key, tree)]
                await rows.remove(old)
            dropped += len(old)
            if len(old) < PAGE:
                return dropped
            after = max(old)


class KeyedLedgerUnit:
    """slackwater.quota.ports.LedgerUnit."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._trees = unit.keyed(TREE_ROWS, quarantine)
        self._claims = unit.keyed(CLAIM_ROWS, quarantine)
        self._ended = unit.keyed(ENDED_ROWS, quarantine)
        self._uses = unit.keyed(USE_ROWS, quarantine)
        self._past = unit.keyed(PAST_ROWS, quarantine)

    async def tree(self, tree: str) -> StoredTree:
        return (await self._trees.read([tree])).get(tree, StoredTree(tree))

    async def lock(self, tree: str) -> StoredTree:
        return (await self._trees.lock([tree])).get(tree, StoredTree(tree))

    async def claims(self, tree: str) -> Sequence[KeptClaim]:
        return list((await self._claims.read_group(tree)).values())

    async def live(self) -> Sequence[KeptClaim]:
        return list((await self._claims.read_all()).values())

    async def ended(self) -> Sequence[KeptClaim]:
        return list((await self._ended.read_all()).values())

    async def find(self, ids: Collection[str]) -> Mapping[str, KeptClaim]:
        if not ids:
            return {}
        return {**await self._ended.read(ids), **await self._claims.read(ids)}

    async def advance(self, tree: StoredTree) -> StoredTree:
        written = replace(tree, generation=tree.generation + 1)
        await self._trees.replace(written, tree.generation)
        return written

    async def save(self, new: Sequence[KeptClaim], changed: Sequence[KeptClaim]) -> None:
        await self._claims.insert([stored for stored in new if stored.claim.state not in ENDED])
        await self._ended.insert([stored for stored in new if stored.claim.state in ENDED])
        ended = [stored for stored in changed if stored.claim.state in ENDED]
        await self._claims.write([stored for stored in changed if stored.claim.state not in ENDED])
        await self._ended.write(ended)
        await self._claims.remove([stored.claim.id for stored in ended])

    async def save_uses(self, uses: Sequence[QuotaUse]) -> None:
        await self._uses.write(uses)

    async def remember(self, past: PastTree) -> None:
        await self._past.write([past])

    async def past(self, tree: str, at_s: float) -> PastTree | None:
        page = await self._past.page(before_key(tree, at_s), 1)
        return next((past for past in page.values() if past.tree == tree), None)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)
