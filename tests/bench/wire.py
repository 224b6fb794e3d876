"""What telemetry costs on the wire and each of its readers: bytes of a message, messages of a node, µs of a reader.

A reader is its decoder and what it does with each message; batches, the broker and the database are not measured here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Final

from tests.bench.load import fleet
from tests.bench.verdict import Scale, Target
from tests.support.clock import EPOCH, FakeClock
from tests.support.windows import window_of

from slackwater.bus.rosters.roster_publisher import REPEAT_SECONDS
from slackwater.cluster.fold import ClusterFold
from slackwater.colocation.usecases.node_updates import apply_usage
from slackwater.console.usecases.translate import pod_views, usage_point, window_view
from slackwater.events.codec.body import decode_body
from slackwater.events.envelope import Event, P, Payload, event_of
from slackwater.events.pod_columns import by_columns
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import Roster
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.offers.node import NodeState
from slackwater.prediction.usecases.fold_windows import node_window
from slackwater.quota.usecases.cluster_totals import ClusterTotals

PODS: Final = (30, 110)
NODES: Final = 2000
REPORT_SECONDS, WINDOW_SECONDS = 5.0, 60.0
ROUNDS: Final = 25
TARGET_BYTES: Final = {30: 2500, 110: 8000}
TARGET_READERS_CORES: Final = 0.05
_SECONDS: Final[dict[type[Payload], float]] = {
    UsageReported: REPORT_SECONDS,
    PodsRostered: REPEAT_SECONDS,
    UsageWindowed: WINDOW_SECONDS,
}
"""Of a node whose pods do not change, from one message to the next."""
_DECIDING: Final = ("quota", "descheduler", "migration")
"""Services that decide over the cluster."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What a service does with each message of a type."""

    service: str
    payload: type[Payload]
    read: Callable[[bytes], Any]


def measure() -> dict[str, Any]:
    """Measures every message and every reader with each number of pods."""
    sizes = {str(pods): _of_size(pods) for pods in PODS}
    few = sizes[str(PODS[0])]
    cores = sum(few["cores_of_readers"][service] for service in _DECIDING)
    what = f"quota, descheduler and migration, {NODES:,} nodes of {PODS[0]} pods"
    return {
        "targets": (
            *(
                Target(f"a report of {pods} pods", few_bytes(sizes[str(pods)]), most, "B")
                for pods, most in TARGET_BYTES.items()
            ),
            Target(what, cores, TARGET_READERS_CORES, "cores", Scale.TIME),
        ),
        "pods": sizes,
        "rows": [row for pods in PODS for row in rows_of(pods, sizes[str(pods)])],
    }


def few_bytes(size: dict[str, Any]) -> int:
    """Returns the bytes of a report."""
    return int(size["bytes"][UsageReported.TYPE])


def fixed_parts(pods: int) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Returns by event what no machine changes: bytes, messages of a node in an hour, readers."""
    bodies, readers = _bodies(pods), list(_readers(pods))
    return {
        payload.TYPE: (
            len(next(bodies[payload])),
            round(3600 / seconds),
            tuple(reader.service for reader in readers if reader.payload is payload),
        )
        for payload, seconds in _SECONDS.items()
    }


def rows_of(pods: int, size: dict[str, Any]) -> Iterator[str]:
    """Yields one line of a table for each event: bytes, messages of a node in an hour, microseconds by reader."""
    for payload, seconds in _SECONDS.items():
        readers = size["reader_microseconds"][payload.TYPE]
        shown = ", ".join(f"{service} {microseconds:.0f}" for service, microseconds in readers.items())
        yield f"| `{payload.TYPE}` | {pods} | {size['bytes'][payload.TYPE]:,} | {3600 / seconds:.0f} | {shown} |"


def _of_size(pods: int) -> dict[str, Any]:
    bodies = _bodies(pods)
    found: dict[str, dict[str, float]] = {payload.TYPE: {} for payload in _SECONDS}
    for reader in _readers(pods):
        found[reader.payload.TYPE][reader.service] = round(_microseconds(reader.read, bodies[reader.payload]), 1)
    cores: dict[str, float] = {}
    for payload, seconds in _SECONDS.items():
        for service, microseconds in found[payload.TYPE].items():
            cores[service] = round(cores.get(service, 0.0) + microseconds * NODES / seconds / 1e6, 4)
    return {
        "bytes": {payload.TYPE: len(next(bodies[payload])) for payload in _SECONDS},
        "reader_microseconds": found,
        "cores_of_readers": cores,
    }


def _bodies(pods: int) -> dict[type[Payload], Iterator[bytes]]:
    """Messages of one node, each newer than the one before."""
    report, roster = fleet.message(pods, 0.5, REPORT_SECONDS), fleet.roster(pods)

    def filled(template: fleet.Message) -> Iterator[bytes]:
        for number in count(1):
            yield template.filled(7, number, EPOCH + timedelta(seconds=number), b"1" * 36)[1]

    def windows() -> Iterator[bytes]:
        plain = fleet.report(pods, 0.5, REPORT_SECONDS)
        for number in count(1):
            data = plain.model_copy(update={"sampled_at": EPOCH + timedelta(minutes=number)})
            yield window_of(data, int(WINDOW_SECONDS)).body().encode()

    return {UsageReported: filled(report), PodsRostered: filled(roster), UsageWindowed: windows()}


def _readers(pods: int) -> Iterator[Reader]:
    """Yields what each service does."""
    known = decode_body(PodsRostered, fleet.roster(pods).filled(7, 1, EPOCH, b"1" * 36)[1]).roster

    def find(node: str, digest: str) -> Roster | None:
        return known if digest == known.digest else None

    yield Reader("ingestion", UsageReported, lambda body: by_columns(decode_body(UsageReported, body, find=find).pods))
    yield Reader("ensurance", UsageReported, lambda body: decode_body(UsageReported, body, find=find))

    def show(body: bytes) -> None:
        event = _event(decode_body(UsageReported, body, find=find))
        usage_point(event), pod_views(event.data)

    yield Reader("console", UsageReported, show)
    totals = ClusterTotals(FakeClock(EPOCH))

    def count_claims(body: bytes) -> None:
        receiving = totals.receive(_event(decode_body(PodsRostered, body)))
        try:
            receiving.send(None)
        except StopIteration:
            return
        raise RuntimeError("quota waited for something while it folded a roster")

    yield Reader("quota", PodsRostered, count_claims)
    for service in ("descheduler", "migration"):
        fold = ClusterFold()
        yield Reader(service, PodsRostered, _folding(fold, PodsRostered))
        yield Reader(service, UsageWindowed, _folding(fold, UsageWindowed))
    yield Reader("prediction", UsageWindowed, lambda body: node_window(_event(decode_body(UsageWindowed, body))))
    state = NodeState("bench")
    yield Reader("colocation", UsageWindowed, lambda body: apply_usage(state, _event(decode_body(UsageWindowed, body))))
    yield Reader("console", UsageWindowed, lambda body: window_view(_event(decode_body(UsageWindowed, body))))


def _event(data: P) -> Event[P]:
    return event_of(data, source="bench", time=EPOCH, id="bench")


def _folding(fold: ClusterFold, payload: type[Payload]) -> Callable[[bytes], None]:
    def read(body: bytes) -> None:
        fold.apply(_event(decode_body(payload, body)))

    return read


def _microseconds(read: Callable[[bytes], Any], bodies: Iterator[bytes]) -> float:
    """The least of several rounds: other processes only add to it."""
    best = float("inf")
    for _ in range(ROUNDS):
        batch = [next(bodies) for _ in range(40)]
        began = time.process_time()
        for body in batch:
            read(body)
        best = min(best, (time.process_time() - began) / len(batch))
    return 1e6 * best
