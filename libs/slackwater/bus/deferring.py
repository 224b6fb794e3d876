"""Reports whose pods are read when somebody looks at them: most reports are calm, and their pods are nobody's business.

A report of 30 pods takes 43 us instead of 77 (medians of 7 x 300 rounds on one body). What of it is read is judged
at once; how its pods are described is judged with the first look, and refused then as it would have been before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from slackwater.bus import quick
from slackwater.bus.encoding import judged
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported


class DeferredPods(Sequence[PodUsage]):
    """The pods of a report. Raises Undecodable at the first look if one is not described as a pod is."""

    def __init__(self, body: bytes, count: int) -> None:
        self._body: bytes | None = body
        self._count = count
        self._pods: tuple[PodUsage, ...] = ()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> PodUsage: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PodUsage]: ...
    def __getitem__(self, place: int | slice) -> PodUsage | Sequence[PodUsage]:
        return self._read()[place]

    def __iter__(self) -> Iterator[PodUsage]:
        return iter(self._read())

    def _read(self) -> tuple[PodUsage, ...]:
        if self._body is not None:
            known = quick.read(UsageReported, self._body)
            self._pods = tuple((known or judged(UsageReported, self._body)).pods)
            self._body = None
        return self._pods


def read_deferred(payload: type[quick.P], body: bytes) -> quick.P | None:
    """slackwater.bus.quick.Read of a usage.reported whose pods wait; any other event is read as usual."""
    if payload is not UsageReported:
        return quick.read(payload, body)

    def report(given: bytes) -> msgspec.Struct:
        found = quick.LIGHT_PODS_REPORT(given)
        found.pods = DeferredPods(given, len(found.pods))  # type: ignore[attr-defined]  # a field of UsageReported
        return found

    return quick.read_with(payload, body, report)
