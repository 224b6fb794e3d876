"""Log lines are found again by their names: an event is a constant, what varies goes into fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from sources import Source, sources

LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def varying_events(source: Source) -> Iterator[str]:
    """Calls of a logger whose first argument is not a plain constant, or that format by position."""
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in {"log", "_log", "logger"}):
            continue
        event = node.args[0] if len(node.args) == 1 else None
        constant = isinstance(event, ast.Constant) and isinstance(event.value, str)
        if not constant or "%" in str(event.value) or "{" in str(event.value):  # type: ignore[union-attr]
            yield f"{source.path}:{node.lineno}"


def test_every_event_has_a_constant_name() -> None:
    assert [found for source in sources("services", "libs") for found in varying_events(source)] == []


def test_every_logger_is_ours() -> None:
    """One form for all lines: no module creates a logger of the standard library."""
    allowed = {"libs/slackwater/telemetry/logs.py"}
    wrong = [
        str(source.path)
        for source in sources("services", "libs")
        if "logging.getLogger(" in source.text and str(source.path) not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "call", ["log.info('a %s', 1)", "log.info(f'a {b}')", "_log.warning(text)", "log.error('a%s')"]
)
def test_a_varying_event_is_found(call: str) -> None:
    assert list(varying_events(Source(PurePosixPath("services/slackwater/agent/edge/planted.py"), call)))
