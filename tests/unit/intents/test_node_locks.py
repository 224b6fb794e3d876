"""Nodes are locked side by side, each by one task; a lock over all nodes is alone; cancelled tasks leave no lock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from hypothesis import given
from hypothesis import strategies as st

from slackwater.intents.node_cache import MOST_SIDE_BY_SIDE, NodeLocks

ALL_NODES = ""


class Watched:
    """Tasks that lock a node or all nodes, stay for some steps, and record what else was locked meanwhile."""

    def __init__(self) -> None:
        self.locks = NodeLocks()
        self.inside: list[str] = []
        self.most = 0
        self.done = 0

    def lock(self, who: str) -> AbstractAsyncContextManager[None]:
        return self.locks.all_nodes() if who == ALL_NODES else self.locks.node(who)

    async def visit(self, who: str, steps: int) -> None:
        async with self.lock(who):
            assert who not in self.inside
            assert ALL_NODES not in self.inside
            assert who != ALL_NODES or not self.inside
            assert not self.locks.is_free(who or "anybody")
            self.inside.append(who)
            self.most = max(self.most, len(self.inside))
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                self.inside.remove(who)
        self.done += 1


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d", "e", ALL_NODES]), st.integers(0, 4)), max_size=30))
async def test_one_task_changes_a_locked_node_and_each_gets_its_lock(
    visits: Sequence[tuple[str, int]],
) -> None:
    watched = Watched()
    async with asyncio.timeout(60):
        await asyncio.gather(*(watched.visit(who, steps) for who, steps in visits))
    assert watched.done == len(visits)
    assert watched.most <= MOST_SIDE_BY_SIDE
    assert all(watched.locks.is_free(who) for who, _ in visits)


async def test_different_nodes_are_locked_side_by_side() -> None:
    watched = Watched()
    await asyncio.gather(*(watched.visit(who, 3) for who in "abcde"))
    assert watched.most == MOST_SIDE_BY_SIDE


@given(st.lists(st.tuples(st.sampled_from(["a", "b", ALL_NODES]), st.integers(0, 6)), min_size=1, max_size=12))
async def test_a_task_that_is_cancelled_leaves_no_lock(visits: Sequence[tuple[str, int]]) -> None:
    watched = Watched()
    tasks = [asyncio.create_task(watched.visit(who, 5)) for who, _ in visits]
    for task, (_, after) in zip(tasks, visits, strict=True):
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(60):
        await asyncio.gather(*(watched.visit(who, 1) for who in ("a", "b", ALL_NODES)))
    assert watched.locks.is_free("a")
