"""Texts of sysfs: CPU lists like `0-3,8`, ranges with both ends, and rows of distances."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.model.errors import InvalidInput

MOST_CPUS = 8192
"""CONFIG_NR_CPUS of the largest kernels."""


def parse_cpu_list(text: str) -> frozenset[int]:
    """Returns the ids of a list; the empty text is no CPU. Raises InvalidInput for what is no list."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise InvalidInput(f"cpus: {part[:40]!r} in {text[:80]!r} is no id and no range like 0-3", field="cpus")
        low, high = int(first), int(last or first)
        if not low <= high < MOST_CPUS:
            raise InvalidInput(f"cpus: {part[:40]!r}: ids are ascending and below {MOST_CPUS}", field="cpus")
        cpus |= set(range(low, high + 1))
    return frozenset(cpus)


def cpu_list_text(cpus: Iterable[int]) -> str:
    """Returns the list of ids with ranges, as the kernel prints it."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def parse_distances(text: str) -> tuple[int, ...]:
    """Returns the distances of a node to all, in the order of ids. Raises InvalidInput for what is no number."""
    parts = text.split()
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidInput(f"distance: {text.strip()[:80]!r} is not a list of numbers", field="distance")
    return tuple(map(int, parts))
