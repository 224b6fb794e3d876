"""A node whose window cannot be computed is set aside alone; the windows of the others are closed."""

from __future__ import annotations

from typing import Any

import pytest
from ingestion_world import LATENESS, WINDOW, World

from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.usecases import close_windows

NODES = ("a", "b", "c")


async def report_minutes(world: World, first: int, minutes: int) -> None:
    """A report of every node each five seconds, and then the time that a window waits for late ones."""
    for sequence in range(first, first + minutes * WINDOW // 5):
        for node in NODES:
            await world.report(sequence, node)
        await world.clock.advance(5)
    await world.clock.advance(LATENESS + 1)


async def test_windows_are_closed_one_by_one_where_one_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    event_of_window = close_windows._event

    def failing(window: Any, *arguments: Any) -> Any:
        if window.node == "b":
            raise OverflowError("int too large to convert to float")
        return event_of_window(window, *arguments)

    monkeypatch.setattr(close_windows, "_event", failing)
    await report_minutes(world, 1, 3)
    await world.close()
    told = {window.node for window in world.published(UsageWindowed)}
    assert told == {"a", "c"}
    assert list(world.close._quarantine.nodes) == ["b"]
    numbers = [(window.node, window.number) for window in world.published(UsageWindowed)]
    assert len(numbers) == len(set(numbers)), "what was rolled back with the batch is published once"


@pytest.fixture
def world() -> World:
    return World()
