"""Nodes side by side, each by one at a time; everybody alone; nobody is left out, and who gives up leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from hypothesis import given
from hypothesis import strategies as st

from slackwater.ensurance.usecases.turns import SIDE_BY_SIDE, Turns

EVERYBODY = ""


class Watched:
    """Tasks that take a turn, stay for some steps, and note with whom they were in it."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.inside: list[str] = []
        self.most = 0
        self.done = 0

    def turn(self, who: str) -> AbstractAsyncContextManager[None]:
        return self.turns.of_everybody() if who == EVERYBODY else self.turns.of(who)

    async def visit(self, who: str, steps: int) -> None:
        async with self.turn(who):
            assert who not in self.inside
            assert EVERYBODY not in self.inside
            assert who != EVERYBODY or not self.inside
            assert not self.turns.is_free(who or "anybody")
            self.inside.append(who)
            self.most = max(self.most, len(self.inside))
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                self.inside.remove(who)
        self.done += 1


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d", "e", EVERYBODY]), st.integers(0, 4)), max_size=30))
async def test_nobody_meets_whom_he_must_not_and_everybody_has_his_turn(visits: Sequence[tuple[str, int]]) -> None:
    watched = Watched()
    async with asyncio.timeout(60):
        await asyncio.gather(*(watched.visit(who, steps) for who, steps in visits))
    assert watched.done == len(visits)
    assert watched.most <= SIDE_BY_SIDE
    assert all(watched.turns.is_free(who) for who, _ in visits)


async def test_different_nodes_are_in_hand_together() -> None:
    watched = Watched()
    await asyncio.gather(*(watched.visit(who, 3) for who in "abcde"))
    assert watched.most == SIDE_BY_SIDE


@given(st.lists(st.tuples(st.sampled_from(["a", "b", EVERYBODY]), st.integers(0, 6)), min_size=1, max_size=12))
async def test_who_is_cancelled_in_it_or_before_it_leaves_nothing(visits: Sequence[tuple[str, int]]) -> None:
    watched = Watched()
    tasks = [asyncio.create_task(watched.visit(who, 5)) for who, _ in visits]
    for task, (_, after) in zip(tasks, visits, strict=True):
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(60):
        await asyncio.gather(*(watched.visit(who, 1) for who in ("a", "b", EVERYBODY)))
    assert watched.turns.is_free("a")
