"""How tests run: a fixed choice of examples, and what one process of tests spares itself."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache

import httpcore2
import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

gc.disable()
"""Until everything is collected: see pytest_collection_finish."""

settings.register_profile(
    "fixed",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("fixed"), derandomize=False, max_examples=1000)
settings.load_profile("fixed")
"""Every run draws the same examples: what fails once fails always, on every machine. `make explore` draws others. No
test is timed: an example that took long says that the machine was busy, and nothing of what it is about."""

typer.testing._get_command = cache(typer.main.get_command)
"""Each invocation of a command line built all verbs with their options again, for 30 ms."""

httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
"""Each HTTP client of a test loaded the machine's certificates, for 20 ms, though nearly all use plain HTTP."""


def pytest_collection_finish() -> None:
    """The garbage collector starts, and leaves out what exists. Each of its full passes would look at all modules and
    tests again: 40 % of a lane's collection, and then 1.6 s between two messages of a broker."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True)
def as_nice_as_before() -> Iterator[None]:
    """A nice value cannot be lowered again, so a test that runs a service in here would slow the rest of its lane."""
    before = os.nice(0)
    yield
    assert os.nice(0) == before, "this test has made its lane nicer: run the service in a process of its own"
