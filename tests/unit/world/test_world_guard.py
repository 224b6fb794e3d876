"""The guard: a run that reads a clock, the file system or starts a thread fails, and ids come from the seed."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random, random
from typing import Any

import pytest
from tests.world.guard import Guard, Touched
from tests.world.loop import sim_loop
from tests.world.run import Child


def guarded(work: Callable[[], Any], seed: int = 1) -> tuple[Any, list[str]]:
    """The result of `work` and what the guard found, in a process of its own."""

    def perform() -> tuple[Any, list[str]]:
        loop, found, result = sim_loop(Random(1)), list[str](), None
        with Guard(seed, loop, loop.time, found.append).armed():
            try:
                result = work()
            except Touched as touched:
                result = str(touched)
        return result, found

    return Child(perform).result()


def write_a_file() -> None:
    Path("/tmp/slackwater-world-guard").write_text("outside")


@pytest.mark.parametrize(
    "work",
    [
        lambda: time.monotonic(),  # noqa: PLW0108 - looked up when it is called
        lambda: time.time_ns(),  # noqa: PLW0108
        lambda: time.sleep(0),
        write_a_file,
        lambda: Path("/etc/hostname").read_text(),
        lambda: threading.Thread(target=int).start(),
        lambda: __import__("socket").socket(),
        lambda: __import__("subprocess").run(["true"], check=False),
    ],
    ids=["monotonic", "time_ns", "sleep", "write", "read", "thread", "socket", "process"],
)
def test_what_is_outside_fails_the_run(work: Callable[[], Any]) -> None:
    _, found = guarded(lambda: work() and None)
    assert found


def ids() -> tuple[str, str, float]:
    return str(uuid.uuid4()), secrets.token_hex(4), random()


def test_ids_and_jitter_come_from_the_seed() -> None:
    assert guarded(ids) == guarded(ids)
    assert guarded(ids)[1] == []
    assert guarded(ids, 1) != guarded(ids, 2)
