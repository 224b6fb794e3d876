"""What the databases of the world answer to the SQL of each service."""

from __future__ import annotations

from tests.unit.colocation.colocation_memory import answer_colocation
from tests.unit.prediction.prediction_memory import answer_snapshots

import slackwater.ingestion.service as ingestion
from slackwater.ingestion.adapters.memory import Books
from slackwater.ingestion.adapters.memory_blocks import MemoryBlocks
from slackwater.testing.store import MemoryDatabase


def answer_service(service: str, database: MemoryDatabase) -> None:
    """Teach a database the statements of one service."""
    if service == "colocation":
        answer_colocation(database)
    elif service == "prediction":
        answer_snapshots(database)
    elif service == "ingestion":
        books, blocks = Books(), MemoryBlocks()
        vars(ingestion).update(PostgresUsageLedger=_Remembering(books), PostgresBlockBook=blocks.books())


class _Remembering:
    def __init__(self, books: Books) -> None:
        self._books = books

    def remembering(self, _: object) -> object:
        return self._books.ledgers()
