"""Scenes do not leak: nodes of one are gone before the next, or the next says which ones still count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.demo import stage as waiting
from slackwater.demo.scenes import moves, quotas
from slackwater.model.errors import Unavailable


class NodeList:
    """The API of a stack whose nodes at each question are given; the last ones stay."""

    node = "own"

    def __init__(self, *answers: set[str]) -> None:
        self.answers = list(answers)
        self.asked: list[set[str]] = []

    async def live(self) -> set[str]:
        self.asked.append(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        return self.asked[-1]

    async def get(self, _path: str) -> dict[str, Any]:
        return {"total": {"cpu": 2000 * len(self.asked[-1])}}

    async def document(self, *_names: str) -> None:
        return None

    async def put_back(self, *_names: Any) -> None:
        return None

    async def items(self, _path: str) -> list[dict[str, Any]]:
        return []


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(waiting, "_STEP_SECONDS", 0.0)
    return


async def test_the_quotas_count_this_machine_alone() -> None:
    api = NodeList({"own", "node-a", "node-b"}, {"own", "node-b"}, {"own"})
    workloads = SimpleNamespace(stop=None)
    async with quotas.opened(SimpleNamespace(api=api, workloads=workloads)) as run_turn:  # type: ignore[arg-type]
        assert run_turn.__self__.total_milli == 2000  # type: ignore[attr-defined]
    assert len(api.asked) == 3


async def test_the_quotas_name_the_nodes_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "_DESCRIBED_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="counted other nodes: node-a, node-b"):
        async with quotas.opened(SimpleNamespace(api=NodeList({"own", "node-b", "node-a"}))):  # type: ignore[arg-type]
            pass


async def test_the_moves_wait_until_their_nodes_have_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    api = NodeList({"own", "node-a"}, {"own", "node-a"}, {"own"})

    @asynccontextmanager
    async def running(_agents: object) -> AsyncIterator[None]:
        yield

    async def at_once(*_given: object) -> None:
        return None

    monkeypatch.setattr(moves, "running", running)
    monkeypatch.setattr(moves, "require", at_once)
    monkeypatch.setattr(moves.ServiceMoves, "find_pod", at_once)
    monkeypatch.setattr(moves.Kernel, "of", lambda _folder: SimpleNamespace(remains=list))
    api.endpoint = SimpleNamespace(nats_url="")  # type: ignore[attr-defined]
    stage = SimpleNamespace(api=api, workloads=SimpleNamespace(state_dir=tmp_path, from_file=at_once))
    async with moves.opened(stage):  # type: ignore[arg-type]
        assert api.asked == []
    assert len(api.asked) == 3
