from __future__ import annotations
from typing import Any
class PostgresReadModel:
    def __init__(self, database: Any) -> None: ...
