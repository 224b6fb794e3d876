"""Signals as cancellation: the first one stops in order, the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interruption:
    """Whether a signal ended the block, and which one."""

    received: signal.Signals | None = None


@contextmanager
def cancelled_by_signal() -> Iterator[Interruption]:
    """Cancel the block at the first SIGINT, SIGTERM or SIGHUP and continue after it; at the second,
    exit at once.

    The second signal skips the orderly stop: children end with the process, cgroups are restored
    from the journal at the next start. Must be entered in the main thread, inside a running event
    loop.
    """
    interruption = Interruption()
    scope = anyio.CancelScope()
    loop = asyncio.get_running_loop()

    def on_signal(received: signal.Signals) -> None:
        if interruption.received is not None:
            sys.stderr.write("\nexiting at once; the next start restores what is left\n")
            os._exit(128 + received)
        interruption.received = received
        scope.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        with scope:
            yield interruption
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def cancelled_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what the work returns. A cancellation reaches it once, and its end is waited for.

    Inside `cancelled_by_signal` every later await is cancelled too: work that stops its processes
    one after the other would leave them running.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
            await task
        raise
