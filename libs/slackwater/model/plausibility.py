"""Whether measured usage fits the machine that is said to have it."""

from __future__ import annotations

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.quantities import Resources

CAPACITY_FACTOR = 2.0
"""Usage of a window may pass the described capacity by this: CPUs come and go, and clocks are read an instant apart."""


def plausible_usage(capacity: Resources | None, factor: float = CAPACITY_FACTOR) -> Resources:
    """The most that a node of this capacity can be using: `factor` times as much, and never more than any machine has.
    A capacity of None is unknown; a resource of 0 has no usage."""
    if capacity is None:
        return Resources(MOST_CPU_MILLI, MOST_MEMORY_BYTES)
    return Resources(
        min(MOST_CPU_MILLI, int(capacity.cpu_milli * factor)),
        min(MOST_MEMORY_BYTES, int(capacity.memory_bytes * factor)),
    )


def implausible_usage(used: Resources, capacity: Resources | None) -> str | None:
    """Why usage cannot be that of a node of this capacity; None if it can."""
    most = plausible_usage(capacity)
    for name, amount, limit in (
        ("cpu_milli", used.cpu_milli, most.cpu_milli),
        ("memory_bytes", used.memory_bytes, most.memory_bytes),
    ):
        if amount > limit:
            return f"{name}: {amount} is above {limit}, {CAPACITY_FACTOR:g} times the described capacity"
    return None
