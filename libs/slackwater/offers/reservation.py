"""Reservations of a node: the safety margin, the kubelet's reservation, and the operator's annotation."""

from __future__ import annotations

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.snapshot import amount, percent_of
from slackwater.offers.strategy import Strategy

MOST_CPU = 65_535
"""Upper bound of CPU numbers, above any kernel's limit: it bounds the size of a parsed range."""
_SHOWN = 80


def safety_margin(resource: str, capacity: Resources, strategy: Strategy) -> int:
    """Returns (100 - reclaim threshold) % of capacity, cut toward zero; negative for thresholds above 100 %."""
    return percent_of(amount(capacity, resource), 100 - strategy.reclaim_threshold(resource))


def kubelet_reservation(capacity: Resources, allocatable: Resources, raw_allocatable: Resources | None) -> Resources:
    """Returns the kubelet's reservation. On an amplified node only the raw allocatable is valid: the amplified one
    exceeds the capacity, and the reservation would be zero.
    """
    return (capacity - (raw_allocatable or allocatable)).at_least_zero()


def annotated_reservation(named: Resources, reserved_cpus: str) -> Resources:
    """Returns the operator's reservation; a list of CPUs takes precedence over an amount. Raises InvalidInput."""
    return Resources(1000 * cpuset_size(reserved_cpus), named.memory_bytes) if reserved_cpus else named


def cpuset_size(text: str) -> int:
    """Returns how many distinct CPUs a list such as `0-3,8` names. Raises InvalidInput."""
    named = 0
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not _is_cpu(first) or not _is_cpu(last) or int(last) < int(first):
            allowed = f"numbers up to {MOST_CPU} and ranges, separated by commas, like 0-3,8"
            shown = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
            raise InvalidInput(f"reservedCPUs: {shown} is not a list of CPUs; allowed: {allowed}", field="reservedCPUs")
        named |= (1 << int(last) + 1) - (1 << int(first))
    return named.bit_count()


def _is_cpu(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(MOST_CPU)) and int(text) <= MOST_CPU
