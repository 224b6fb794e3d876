"""Reports whose pods are built on first access: most reports are calm, and their pods are not
needed.

The whole report is still validated at once: numbers by msgspec, and each pod's description by its
bytes, which repeat in the next report and are validated once. A report of 30 pods takes 48 us
instead of 93 (least of 9 x 300 rounds on one body).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from slackwater.events.codec import fast_decode
from slackwater.events.codec.body import validated
from slackwater.events.codec.interning import InternedValues
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported


class DeferredPods(Sequence[PodUsage]):
    """The pods of a validated report, built from its body on first access."""

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
            known = fast_decode.read(UsageReported, self._body)
            self._pods = tuple((known or validated(UsageReported, self._body)).pods)
            self._body = None
        return self._pods


class DeferredReader:
    """Implements slackwater.events.codec.fast_decode.Read with DeferredPods for usage.reported; other events are
    read as usual.
    """

    def __init__(self) -> None:
        self._described = InternedValues(_is_described)

    def __call__(self, payload: type[fast_decode.P], body: bytes) -> fast_decode.P | None:
        if payload is not UsageReported:
            return fast_decode.read(payload, body)
        return fast_decode.read_with(payload, body, self._report)

    def _report(self, body: bytes) -> msgspec.Struct:
        report = fast_decode.LIGHT_PODS_REPORT(body)
        pods = report.pods  # type: ignore[attr-defined]  # a field of UsageReported
        self._described.all([pod_usage.pod for pod_usage in pods])
        report.pods = DeferredPods(body, len(pods))  # type: ignore[attr-defined]  # a field of UsageReported
        return report


def _is_described(body: bytes) -> bool:
    """Returns True; keeps only the bytes, not an object per pod. Raises what
    slackwater.events.codec.fast_decode.decode_pod raises.
    """
    fast_decode.decode_pod(body)
    return True
