"""Groups the rows of a query, and numbers them within partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.support.postgres_twin.expressions import function_of
from tests.support.postgres_twin.functions import AGGREGATES
from tests.support.postgres_twin.scopes import Frame, Function, Scope
from tests.support.postgres_twin.sources import Scan
from tests.support.postgres_twin.syntax import Call

Keep = Callable[[Frame, list[Any]], None]


def grouped(scan: Scan, scope: Scope, places: Sequence[int], group: Sequence[Function], *, always: bool) -> Scan:
    """Returns a scan with one row for each group, its aggregates in their places. `always`: one group, even of none."""
    found, scope.aggregates = scope.aggregates or [], None
    steps = [(_keeper(call, scope), _finisher(call), place) for call, place in found]

    def scan_groups(frame: Frame) -> Iterator[None]:
        groups: dict[Any, tuple[list[Any], list[list[Any]]]] = {}
        for _ in scan(frame):
            key = tuple(_hashable(one(frame)) for one in group)
            if key not in groups:
                groups[key] = [frame[place] for place in places], [[] for _ in steps]
            for (keep, _, _), kept in zip(steps, groups[key][1], strict=True):
                keep(frame, kept)
        if not groups and always:
            groups[()] = [frame[place] for place in places], [[] for _ in steps]
        for rows, values in groups.values():
            for place, row in zip(places, rows, strict=True):
                frame[place] = row
            for (_, finish, place), kept in zip(steps, values, strict=True):
                frame[place] = finish(kept)
            yield None

    return scan_groups


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _keeper(call: Call, scope: Scope) -> Keep:
    """Returns a function that keeps the value of a row for an aggregate."""
    where = None if call.where is None else function_of(call.where, scope)
    value = None if call.is_star else function_of(call.arguments[0], scope)
    keys = [function_of(key.value, scope) for key in call.order]
    keeps_null = call.is_star or call.name == "array_agg"

    def keep(frame: Frame, kept: list[Any]) -> None:
        if where is not None and not where(frame):
            return
        found = True if value is None else value(frame)
        if found is not None or keeps_null:
            kept.append(([key(frame) for key in keys], found) if keys else found)

    return keep


def _finisher(call: Call) -> Callable[[list[Any]], Any]:
    if call.name == "count":
        return len
    if call.name == "array_agg":
        if call.order:
            return lambda kept: [value for _, value in sorted(kept, key=lambda pair: pair[0])] or None
        return lambda kept: kept or None
    return AGGREGATES[call.name]


def numbered(scan: Scan, scope: Scope, places: Sequence[int]) -> Scan:
    """Returns a scan with `row_number() OVER (…)` in its place."""
    found, scope.windows = scope.windows or [], None
    if len(found) != 1 or found[0][0].name != "row_number":
        raise AssertionError("the PostgreSQL twin has one window function, row_number")
    (call, number_place) = found[0]
    partition = [function_of(one, scope) for one in call.partition or ()]
    order = [function_of(key.value, scope) for key in call.order]

    def scan_numbered(frame: Frame) -> Iterator[None]:
        rows = [
            (tuple(one(frame) for one in partition), tuple(one(frame) for one in order), [frame[p] for p in places])
            for _ in scan(frame)
        ]
        rows.sort(key=lambda row: row[:2])
        last, number = None, 0
        for part, _, kept in rows:
            number = number + 1 if part == last else 1
            last = part
            for place, row in zip(places, kept, strict=True):
                frame[place] = row
            frame[number_place] = number
            yield None

    return scan_numbered
