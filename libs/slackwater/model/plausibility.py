"""Checks that measured usage is plausible for the capacity of the node."""

from __future__ import annotations

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.quantities import Resources

CAPACITY_FACTOR = 2.0
"""Usage of a window may exceed the described capacity by this factor, because CPUs go on- and offline and counters are
not read at exactly the same time."""


def plausible_usage(capacity: Resources | None, factor: float = CAPACITY_FACTOR) -> Resources:
    """The upper limit of plausible usage: `factor` times `capacity`, at most the limits of `model.bounds`.

    A capacity of None is unknown and gives the limits of `model.bounds`.
    """
    if capacity is None:
        return Resources(MOST_CPU_MILLI, MOST_MEMORY_BYTES)
    return Resources(
        min(MOST_CPU_MILLI, int(capacity.cpu_milli * factor)),
        min(MOST_MEMORY_BYTES, int(capacity.memory_bytes * factor)),
    )


def implausible_usage(used: Resources, capacity: Resources | None) -> str | None:
    """The reason why this usage is implausible for a node of this capacity; None if it is plausible."""
    most = plausible_usage(capacity)
    for name, amount, limit in (
        ("cpu_milli", used.cpu_milli, most.cpu_milli),
        ("memory_bytes", used.memory_bytes, most.memory_bytes),
    ):
        if amount > limit:
            return f"{name}: {amount} is above {limit}, {CAPACITY_FACTOR:g} times the described capacity"
    return None
