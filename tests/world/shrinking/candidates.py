"""Smaller plans: each function returns the ways in which one part of a plan can become smaller, boldest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.world.faults import fault_kinds, processes
from tests.world.plan import BROKER, POSTGRES, Plan, PlannedFault

T = TypeVar("T")
Candidates = Callable[[Plan], Iterator[Plan]]
BEGINNING_SECONDS = 20.0
"""Faults move no earlier than this: every history begins with a world that works."""
_MARGIN_SECONDS = 1.0
_OTHER_ORDERS, _SEED_STEP = 3, 1_000_003
_SHORTEST_FAULT_SECONDS = 0.1
_MEANINGFUL_SECONDS = 5.0


def cut_after(plan: Plan, at: float) -> Iterator[Plan]:
    """Yields the plan without what comes after its failure at virtual time `at`: shorter, and as long as it is.

    A failure in the quiet or the rest phase keeps both phases whole: a world that has less time to come to rest would
    fail for another reason.
    """
    faults = tuple(fault for fault in plan.faults if fault.at <= at)
    changes = tuple(change for change in plan.changes if change.at <= at)
    left = replace(plan, faults=faults, changes=changes)
    if at < plan.fault_seconds:
        yield replace(left, fault_seconds=at + _MARGIN_SECONDS, quiet_seconds=0.0, rest_seconds=0.0)
    yield left


def other_orders(plan: Plan, candidates: Candidates) -> Iterator[Plan]:
    """Yields the candidates under other seeds: the same plan, with another order of tasks and other delays.

    What is left out shifts every later draw, so a failure that needs a certain order often goes with it."""
    for candidate in candidates(plan):
        for number in range(1, _OTHER_ORDERS + 1):
            yield replace(candidate, seed=candidate.seed + number * _SEED_STEP)


def _without_parts(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yields the items without all, then without each half, quarter, … and at last without each single one."""
    size = len(items)
    while size >= 1:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size = size // 2 if size > 1 else 0


def fewer_faults(plan: Plan) -> Iterator[Plan]:
    for faults in _without_parts(plan.faults):
        yield replace(plan, faults=faults)


def fewer_changes(plan: Plan) -> Iterator[Plan]:
    for changes in _without_parts(plan.changes):
        yield replace(plan, changes=changes)


def _present(plan: Plan) -> Plan:
    """Returns the plan without faults and clocks of processes that it no longer has."""
    hosts, kinds = {BROKER, POSTGRES, *processes(plan)}, fault_kinds()
    faults = tuple(
        fault
        for fault in plan.faults
        if (fault.target in kinds[fault.kind].targets(plan) if fault.kind in kinds else fault.target in hosts)
    )
    offsets = {host: value for host, value in plan.clock_offsets.items() if host in hosts}
    rates = {host: value for host, value in plan.clock_rates.items() if host in hosts}
    return replace(plan, faults=faults, clock_offsets=offsets, clock_rates=rates)


def fewer_processes(plan: Plan) -> Iterator[Plan]:
    for nodes in sorted({1, 2, plan.nodes // 2, plan.nodes - 1} & set(range(1, plan.nodes))):
        yield _present(replace(plan, nodes=nodes))
    for replicas in range(1, plan.replicas):
        yield _present(replace(plan, replicas=replicas))
    for clients in range(plan.clients):
        yield replace(plan, clients=clients)


def milder_network(plan: Plan) -> Iterator[Plan]:
    """A network and a scheduler that keep order, and clocks that agree."""
    calm: dict[str, object] = {"in_order": True, "reorders": False, "delay_seconds": 0.0001, "spread_seconds": 0.0}
    exact: dict[str, object] = {"clock_offsets": {}, "clock_rates": {}}
    every = calm | exact
    singles: Iterator[dict[str, object]] = ({name: value} for name, value in every.items())
    for changed in (every, calm, exact, *singles):
        yield replace(plan, **changed)  # type: ignore[arg-type]  # names and values of fields


def fewer_settings(plan: Plan) -> Iterator[Plan]:
    """Defaults in place of what the seed has drawn."""
    yield replace(plan, settings={})
    for name in plan.settings:
        yield replace(plan, settings={other: values for other, values in plan.settings.items() if other != name})
    for name, values in plan.settings.items():
        for key in values if len(values) > 1 else ():
            kept = {other: value for other, value in values.items() if other != key}
            yield replace(plan, settings={**plan.settings, name: kept})


def milder_faults(plan: Plan) -> Iterator[Plan]:
    """Each fault short, or half as long."""
    for place, fault in enumerate(plan.faults):
        for seconds in (_SHORTEST_FAULT_SECONDS, fault.seconds / 2):
            if seconds < fault.seconds and fault.seconds > 2 * _SHORTEST_FAULT_SECONDS:
                yield _with_fault(plan, place, replace(fault, seconds=seconds))


def _with_fault(plan: Plan, place: int, fault: PlannedFault) -> Plan:
    return replace(plan, faults=(*plan.faults[:place], fault, *plan.faults[place + 1 :]))


def fewer_seconds(plan: Plan) -> Iterator[Plan]:
    """Everything sooner after the start; the quiet and the rest phase stay as long as they are."""
    room = plan.fault_seconds - BEGINNING_SECONDS
    for share in (0.1, 0.25, 0.5, 0.75):
        if room * (1 - share) > _MEANINGFUL_SECONDS:
            yield _sooner(plan, share)


def _sooner(plan: Plan, share: float) -> Plan:
    def moved(at: float) -> float:
        return at if at <= BEGINNING_SECONDS else BEGINNING_SECONDS + (at - BEGINNING_SECONDS) * share

    end = max([moved(plan.fault_seconds), *(moved(fault.at) + fault.seconds for fault in plan.faults)])
    if end > plan.fault_seconds:
        end = plan.fault_seconds
    return replace(
        plan,
        fault_seconds=end,
        faults=tuple(replace(fault, at=moved(fault.at)) for fault in plan.faults),
        changes=tuple(replace(change, at=moved(change.at)) for change in plan.changes),
    )


PASSES: Sequence[tuple[str, Candidates]] = (
    ("faults", fewer_faults),
    ("changes", fewer_changes),
    ("processes", fewer_processes),
    ("network and clocks", milder_network),
    ("settings", fewer_settings),
    ("length of faults", milder_faults),
    ("seconds", fewer_seconds),
)
"""In the order in which they make runs cheaper."""
ROUGH_PASSES = frozenset({"faults", "changes", "processes"})
"""Those that are tried under other seeds too."""
