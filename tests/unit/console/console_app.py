"""One console for the tests of a process: its routes take longer to build than most tests take to ask them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
from fastapi import FastAPI

from slackwater.bus.admin.broker_admin import BrokerAdmin, ClosedAdmin
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.console import service
from slackwater.console.adapters.demo_files import NoDemo
from slackwater.console.edge import html
from slackwater.console.edge.stream import Streams
from slackwater.console.ports import DemoRuns, ReadModel
from slackwater.model.time import Clock
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings


class ConsolePart:
    """Stands in the routes for a part of the console that each test puts in."""

    def __init__(self) -> None:
        self.holds: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.holds, name)

    def __call__(self, *arguments: Any) -> Any:
        return self.holds(*arguments)


class SharedConsole:
    """The routes over places for all that they use. What keeps answers for a while is made anew for each test."""

    def __init__(self) -> None:
        self.places = [ConsolePart() for _ in range(6)]
        self.keepers: list[tuple[ConsolePart, Callable[[], Any]]] = []
        parts: Any = self.places
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service, "Senders", self._keeper_of(service.Senders))
            patch.setattr(html, "Overview", self._keeper_of(html.Overview))
            self.app = build_app(service.routers_of(*parts), no_checks, HttpSettings(host="127.0.0.1", port=0))
        assert len(self.keepers) == 2

    def _keeper_of(self, kind: type) -> Callable[..., ConsolePart]:
        def keeper(*parts: Any) -> ConsolePart:
            place = ConsolePart()
            self.keepers.append((place, partial(kind, *parts)))
            return place

        return keeper


async def no_checks() -> Sequence[Any]:
    return []


shared_console = cache(SharedConsole)


def console_app(
    model: ReadModel,
    streams: Streams,
    clock: Clock,
    desk: BrokerAdmin | None = None,
    blocks: Callable[[], Blocks] = Blocks,
    demo: DemoRuns | None = None,
) -> FastAPI:
    """The console over these parts, until the next call: a test has one of them at a time."""
    shared = shared_console()
    for place, part in zip(
        shared.places, (model, streams, clock, desk or ClosedAdmin(), blocks, demo or NoDemo()), strict=True
    ):
        place.holds = part
    for place, make in shared.keepers:
        place.holds = make()
    return shared.app
