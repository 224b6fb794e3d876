"""Processes that work for a program, and end with it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from slackwater.runtime.parent_death import die_with_parent


def start_workers(count: int, work: Callable[[], NoReturn]) -> Sequence[int]:
    """Start so many; returns their sentinels. SIGTERM or SIGINT then ends the program with 0, and its workers."""
    forked = multiprocessing.get_context("fork")
    workers = [forked.Process(target=_run, args=(work,), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    return [worker.sentinel for worker in workers]


def _run(work: Callable[[], NoReturn]) -> NoReturn:
    die_with_parent()
    work()
