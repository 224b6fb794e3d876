"""An invented scene of two variants whose turns are given, and a stage without a stack for the runner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, Series, TurnFigure
from slackwater.demo.stage import Stage


@dataclass(frozen=True, slots=True)
class InventedTurn:
    """One turn: a measured time, a count, and whether a file was put back."""

    ms: float | None = 10.0
    count: int = 0
    is_restored: bool = True


@dataclass(slots=True)
class DocumentStore:
    """The documents of an API: what was put, in order, and what is in force."""

    documents: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    written: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    async def document(self, kind: str, name: str) -> Mapping[str, Any] | None:
        return self.documents.get((kind, name))

    async def put(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        self.written.append((kind, name, spec))
        self.documents[kind, name] = {"spec": spec}

    async def put_back(self, kind: str, name: str, document: Mapping[str, Any] | None) -> None:
        if document is None:
            self.documents.pop((kind, name), None)
        else:
            self.documents[kind, name] = document


def stage_of(store: DocumentStore) -> Stage:
    """A stage with these documents, whose narrator is silent."""
    narrator = SimpleNamespace(doing=lambda text: None, write_line=lambda text: None)
    return Stage(store, narrator, SimpleNamespace(cpus=2, folder=Path("/")), None)  # type: ignore[arg-type]


def scene_of(turns: Iterator[InventedTurn | Exception], **changes: Any) -> DemoScene[InventedTurn]:
    """The scene whose turns are these, in the order in which they are taken; an exception is raised instead."""

    @asynccontextmanager
    async def opened(_stage: Stage) -> AsyncIterator[RunTurn[InventedTurn]]:
        async def run_turn(_variant: str) -> InventedTurn:
            turn = next(turns)
            if isinstance(turn, Exception):
                raise turn
            return turn

        yield run_turn

    fields: dict[str, Any] = {
        "name": "invented",
        "plan": "two variants",
        "title": "an invented scene",
        "variants": (
            SceneVariant("plain", "without it"),
            SceneVariant("ours", "with it", {"mode": "evict"}, (("podqos", "default", {"allowed": True}),)),
        ),
        "compared": ("plain", "ours"),
        "columns": (
            TurnFigure("ms", "latency", lambda turn: turn.ms, "ms", 1, "less"),
            TurnFigure("count", "jobs", lambda turn: turn.count, counted="more"),
            TurnFigure("is_restored", "restored", lambda turn: turn.is_restored),
        ),
        "promises": (
            Promise("files are put back", lambda turn: turn.is_restored),
            Promise("a job runs", lambda turn: turn.count > 0, ("ours",), lambda turn: f"{turn.count} jobs"),
        ),
        "series": (Series("count over time", lambda turn: [(0.0, turn.count), (1.0, turn.count + 1)], 2, "limit"),),
        "note": lambda turn: "nothing was measured" if turn.ms is None else "",
        "opened": opened,
        "setup_seconds": 1.0,
        "round_seconds": 2.0,
    }
    return DemoScene(**(fields | changes))
