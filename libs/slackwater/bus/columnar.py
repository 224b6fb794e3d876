"""Reports read into columns, one after the other: what is made of a body is gone before the next one is touched.

A report of 30 pods is two hundred objects; what is left of them here is two arrays, three lists and the descriptions
that are known anyway. From the bodies of a batch of 500 to its history: 78 us of CPU a report; 112 us where lean
structs are kept until the batch is whole, 329 us with the dataclasses of the events (medians of 22 rounds).
Loads NumPy: only who asks for it has it.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec.structs import astuple

from slackwater.bus import quick
from slackwater.bus.recalling import Recalled
from slackwater.events.measures import PodUsage
from slackwater.events.pod_columns import PodsByColumns, table_of
from slackwater.events.usage_reported import UsageReported


class ColumnarReader:
    """slackwater.bus.quick.Read; the pods of a usage.reported come by columns, and a pod that is described as before is
    the same object as before."""

    def __init__(self) -> None:
        self._pods = Recalled(quick.decode_pod)

    def __call__(self, payload: type[quick.P], body: bytes) -> quick.P | None:
        if payload is not UsageReported:
            return quick.read(payload, body)
        return quick.read_with(payload, body, self._report)

    def _report(self, body: bytes) -> msgspec.Struct:
        report = quick.LEAN_REPORT(body)
        pods = report.pods  # type: ignore[attr-defined]  # a field of UsageReported
        usages = [one.usage for one in pods]
        amounts = table_of([astuple(one.cpu_milli) for one in usages] + [astuple(one.memory_bytes) for one in usages])
        report.pods = PodsByColumns(  # type: ignore[attr-defined]
            described=self._pods.all([one.pod for one in pods]),
            cpu=amounts[: len(pods)],
            memory=amounts[len(pods) :],
            cpu_limit_milli=[one.cpu_limit_milli for one in pods],
            throttled_ratio=[one.throttled_ratio for one in pods],
            cpu_some_avg=[one.pressure.cpu_some_avg for one in pods],
            as_sent=partial(_as_sent, body),
        )
        return report


def _as_sent(body: bytes) -> tuple[PodUsage, ...]:
    known = quick.read(UsageReported, body)
    assert known is not None  # noqa: S101 - it was read before
    return known.pods
