"""A trace of arrivals: which workload asked for how much, when, and how long it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.records import record
from slackwater.model.tiers import Tier


@record(frozen=True, slots=True)
class WorkloadArrival:
    """One request for resources. Times in seconds since the start of the trace."""

    id: str
    at_s: float
    duration_s: float
    """From its start to its end in the trace; of one that the trace does not see ending, as long as it was seen."""
    amounts: Mapping[str, int]
    """CPU in milli-cores, memory in bytes, `gpu-milli` in thousandths of a GPU."""
    tier: Tier
    priority: int = 0
    groups: Sequence[str] = ()
    """What it belongs to, the narrowest first: the first that names a quota is its quota."""


@record(frozen=True, slots=True)
class ArrivalTrace:
    """Arrivals in order of time."""

    source: str
    arrivals: Sequence[WorkloadArrival]
    end_s: float
    """The last moment that the trace has seen."""
    notes: Sequence[str] = ()
    """What was left out, and what was assumed."""


def peak_demand(trace: ArrivalTrace) -> dict[str, int]:
    """Returns the most that the workloads would use at once, by resource, if none of them waited."""
    changes: list[tuple[float, int, Mapping[str, int]]] = []
    for arrival in trace.arrivals:
        changes.append((arrival.at_s, 1, arrival.amounts))
        changes.append((arrival.at_s + arrival.duration_s, 0, arrival.amounts))
    used: dict[str, int] = {}
    peak: dict[str, int] = {}
    for _, starts, amounts in sorted(changes, key=lambda change: change[:2]):
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + (amount if starts else -amount)
            peak[resource] = max(peak.get(resource, 0), used[resource])
    return peak
