"""A run of several scenes: the scenes that are announced are those that are counted, and what is printed to try."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invented_scene import DocumentStore, InventedTurn, scene_of, stage_of

from slackwater.demo.director import Direction, summary_path
from slackwater.demo.scene import DemoScene
from slackwater.demo.schedule import MOST_ROUNDS
from slackwater.demo.stage import Stage
from slackwater.demo.summary import RunSummary

TURNS = [InventedTurn(count=1)] * 2


class AnsweringStore(DocumentStore):
    """Has an endpoint, and decisions of one kind."""

    node = "edge-7"
    endpoint = SimpleNamespace(http_url="http://127.0.0.1:8460")

    async def decisions(self, kind: str) -> list[dict[str, str]]:
        return [{"id": "newest"}, {"id": "older"}] if kind == "throttle" else []


async def directed(state_dir: Path, scenes: list[DemoScene[Any]], seconds: int | None) -> tuple[list[str], RunSummary]:
    """Returns what a run of these scenes prints, and its summary."""
    state_dir.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    async def stop_all() -> None:
        return

    stage: Stage = stage_of(AnsweringStore())
    stage.workloads = SimpleNamespace(cpus=2, folder=state_dir, state_dir=state_dir, stop_all=stop_all)  # type: ignore[assignment]
    stage.narrator = SimpleNamespace(doing=lambda _: None, write_line=lines.append)  # type: ignore[assignment]
    began = RunSummary(
        driver="linux", machine={}, started_at=datetime(2026, 1, 5, tzinfo=UTC), seconds=seconds, scene="some"
    )
    assert await Direction(stage, scenes, began).perform() == 0
    return lines, RunSummary.model_validate_json(summary_path(state_dir).read_text())


async def test_scenes_that_are_announced_are_those_that_are_counted(tmp_path: Path) -> None:
    names = {"first": 3.0, "long": 60.0, "last": 3.0}
    scenes = [scene_of(iter(TURNS * MOST_ROUNDS), name=name, round_seconds=seconds) for name, seconds in names.items()]
    lines, found = await directed(tmp_path / "demo", scenes, 13)
    assert lines[1:] == [
        "2 scenes, about 8 s:",
        "first, 4 s: two variants",
        "last, 4 s: two variants",
        "scene 1/2, first: shown in 18 turns, every promise kept",
        "scene 2/2, last: shown in 18 turns, every promise kept",
    ]
    assert list(found.scenes) == list(names)
    assert found.scenes["long"].left_out == "it needs 61 s, and SECONDS=13 has no time for it"
    assert not found.stays_up


@pytest.mark.parametrize("folder", ["demo", "ein Ordner mit ä"])
async def test_commands_to_try_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # another program of this name is not this one
    (tmp_path / "slackwater").write_text("#!/bin/sh\n")
    (tmp_path / "slackwater").chmod(0o755)
    state_dir = tmp_path / folder / "demo"
    _, found = await directed(state_dir, [scene_of(iter(TURNS))], None)
    words = [shlex.split(command) for command in found.commands]
    assert [word[0] for word in words] == [f"SLACKWATER_STATE_DIR={state_dir}"] * 3
    assert all(Path(word[1]).name == "slackwater" and Path(word[1]) != Path("slackwater") for word in words)
    assert [word[2:] for word in words] == [
        ["why", "node/edge-7", "batch-cpu"],
        ["get", "decisions"],
        ["why", "decision/newest"],
    ]
