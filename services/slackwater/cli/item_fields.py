"""Cells of tables: functions from an item of a list to the text of one field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from slackwater.cli.output import UNKNOWN, Item, age, cpu, memory, ratio


def part_of(item: Item, *path: str) -> Any:
    """The value at the end of a path of keys; None where one of them is missing or null."""
    value: Any = item
    for step in path:
        if value is None:
            return None
        value = value.get(step)
    return value


def cpu_at(*path: str) -> Callable[[Item], str]:
    """A cell with cores, from the milli-cores at a path."""
    return lambda item: cpu(part_of(item, *path, "cpu_milli"))


def memory_at(*path: str) -> Callable[[Item], str]:
    """A cell with binary units, from the bytes at a path."""
    return lambda item: memory(part_of(item, *path, "memory_bytes"))


def text_at(*path: str) -> Callable[[Item], str]:
    """A cell with the text at a path; unknown if it is empty."""
    return lambda item: str(part_of(item, *path) if part_of(item, *path) not in (None, "") else UNKNOWN)


def ratio_at(*path: str) -> Callable[[Item], str]:
    """A cell with a percentage, from the ratio at a path."""
    return lambda item: ratio(part_of(item, *path))


def age_at(*path: str) -> Callable[[Item], str]:
    """A cell with the age of the time at a path."""
    return lambda item: age(part_of(item, *path), datetime.now(UTC))


def unread_mark(item: Item) -> str:
    """A mark behind a pod's CPU limit that the agent could not read: it is the one that it read last."""
    return " (unread)" if item.get("unread") else ""
