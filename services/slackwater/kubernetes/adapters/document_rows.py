"""The ledger of documents in the schema `kubernetes`: one row per custom resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.kubernetes.domain.document_plan import LedgerEntry
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine

_ENTRY: Final = TypeAdapter(LedgerEntry)


def _decoded(row: Any) -> LedgerEntry:
    """Raises one of UNREADABLE for what is not the entry of this very document."""
    entry = _ENTRY.validate_python(row.document)
    if entry.key != row.key:
        raise ValueError(f"the row is {row.key}, its document {entry.key}")
    return entry


DOCUMENTS: Final = KeyedTable[LedgerEntry](
    name="cluster_documents",
    key="key",
    kind="document",
    columns=(RowColumn("document", "jsonb"),),
    key_of=lambda entry: entry.key,
    encode=lambda entry: (_ENTRY.dump_json(entry).decode(),),
    decode=_decoded,
    of_nodes=False,
    touched="changed_at",
)


class KeyedDocumentLedger:
    """slackwater.kubernetes.ports.DocumentLedger. Not fenced, because a document belongs to no partition:
    two replicas that act for a moment both write what the services answered."""

    def __init__(self, database: Database, quarantine: Quarantine) -> None:
        self._database = database
        self._quarantine = quarantine

    async def load(self) -> Sequence[LedgerEntry]:
        async with self._database.unit_of_work() as unit:
            return list((await unit.keyed(DOCUMENTS, self._quarantine).read_all()).values())

    async def write(self, entry: LedgerEntry) -> None:
        async with self._database.unit_of_work() as unit:
            await unit.keyed(DOCUMENTS, self._quarantine).write([entry])

    async def remove(self, key: str) -> None:
        async with self._database.unit_of_work() as unit:
            await unit.keyed(DOCUMENTS, self._quarantine).remove([key])
