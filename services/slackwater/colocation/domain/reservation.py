"""What is kept back on a node: the safety margin, what its kubelet does not give to pods, what its operator named."""

from __future__ import annotations

from slackwater.colocation.domain.snapshot import amount, percent_of
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources

MOST_CPU = 65_535
"""No kernel counts further; a range without a bound would be as long as somebody's slip."""
_SHOWN = 80


def safety_margin(resource: str, capacity: Resources, strategy: Strategy) -> int:
    """(100 - reclaim threshold) % of capacity, cut toward zero; negative for thresholds above 100 %."""
    return percent_of(amount(capacity, resource), 100 - strategy.reclaim_threshold(resource))


def kubelet_reservation(capacity: Resources, allocatable: Resources, raw_allocatable: Resources | None) -> Resources:
    """What the kubelet keeps. On an amplified node only the raw allocatable tells: the amplified one is larger than
    the capacity, and would make every reservation vanish."""
    return (capacity - (raw_allocatable or allocatable)).at_least_zero()


def annotated_reservation(named: Resources, reserved_cpus: str) -> Resources:
    """What an operator named: CPUs by their numbers win over an amount. Raises InvalidInput."""
    return Resources(1000 * cpuset_size(reserved_cpus), named.memory_bytes) if reserved_cpus else named


def cpuset_size(text: str) -> int:
    """How many CPUs `0-3,8` names, each once. Raises InvalidInput."""
    named = 0
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not _is_cpu(first) or not _is_cpu(last) or int(last) < int(first):
            allowed = f"numbers up to {MOST_CPU} and ranges with commas between, like 0-3,8"
            said = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
            raise InvalidInput(f"reservedCPUs: {said} is no list of CPUs; allowed: {allowed}", field="reservedCPUs")
        named |= (1 << int(last) + 1) - (1 << int(first))
    return named.bit_count()


def _is_cpu(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(MOST_CPU)) and int(text) <= MOST_CPU
