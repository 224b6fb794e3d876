"""One direction of a connection, as TCP has it: in order, nothing twice, and broken when something is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

STALL_SECONDS = 1.0
"""How long a connection waits for a message that later ones have overtaken. Then it counts as lost: TCP would send it
again for longer, and end as a broken connection where the path stays cut."""


class Channel:
    """Numbers what `carry` transports, and runs it at the other end in order. `broken` is called there."""

    def __init__(self, carry: Callable[[Callable[[], None]], None], broken: Callable[[], None]) -> None:
        self._carry = carry
        self._broken = broken
        self._sent = 0
        self._next = 0
        self._early: dict[int, Callable[[], None]] = {}
        self._is_closed = False

    def send(self, run: Callable[[], None]) -> None:
        """Transport one message; at the other end, `run` receives it."""
        number = self._sent
        self._sent = number + 1
        self._carry(partial(self._arrive, number, run))

    def close(self) -> None:
        """Ignore what is still on the way."""
        self._is_closed = True
        self._early.clear()

    def _arrive(self, number: int, run: Callable[[], None]) -> None:
        if self._is_closed or number < self._next:
            return
        if number > self._next:
            if not self._early:
                asyncio.get_running_loop().call_later(STALL_SECONDS, self._break_if_stalled, self._next)
            self._early[number] = run
            return
        self._next = number + 1
        run()
        while self._early and not self._is_closed:
            early = self._early.pop(self._next, None)
            if early is None:
                if self._early:
                    asyncio.get_running_loop().call_later(STALL_SECONDS, self._break_if_stalled, self._next)
                return
            self._next += 1
            early()

    def _break_if_stalled(self, missing: int) -> None:
        if not self._is_closed and self._next == missing:
            self._broken()
