"""Compiled statements, and the results that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.postgres_twin.scopes import Execution


@dataclass(slots=True)
class StatementResult:
    """Rows with the names of their columns, and how many rows were returned or changed."""

    names: Sequence[str]
    rows: list[tuple[Any, ...]]
    count: int
    tag: str


@dataclass(slots=True)
class CompiledStatement:
    """A statement that can be run many times, on every server with the same catalog."""

    run: Callable[[Execution, Any], StatementResult]
    tables: Sequence[tuple[str, int]] = ()
    """Tables with the modes of the locks that it takes first."""
    writes: bool = False
    """Refused by a server that takes no writes; row locks count as writes."""
