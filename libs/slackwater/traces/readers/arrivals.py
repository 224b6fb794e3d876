"""Reads traces of arrivals: Alibaba's GPU cluster 2023 (openb), Google's clusterdata 2011 task events."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier
from slackwater.traces.arrivals import ArrivalTrace, WorkloadArrival
from slackwater.traces.readers.files import matching, opened

OPENB, OPENB_USUAL = "openb_pod_list_*.csv*", "openb_pod_list_default.csv*"
GOOGLE = "task_events-part-*.csv*"
MEBIBYTE, GIBIBYTE = 2**20, 2**30
GOOGLE_BEGIN_S = 600.0
"""Earlier times stand for what ran before the trace begins."""
_SUBMIT, _SCHEDULE = 0, 1
_ENDS = frozenset({2, 3, 4, 5, 6})
_NO_NAME = re.compile(r"[^a-z0-9]+")

Advance = Callable[[int], None]


def read_arrivals(path: Path, advance: Advance = lambda lines: None) -> ArrivalTrace:
    """Returns the arrivals of a file or folder; `advance` is called with lines read. Raises InvalidInput."""
    if found := matching(path, OPENB):
        return _openb(matching(path, OPENB_USUAL) or found, advance)
    if found := matching(path, GOOGLE):
        return _google(found, advance)
    if not path.exists():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    raise InvalidInput(f"--trace: {path} has no arrivals; expected {OPENB} or {GOOGLE}", field="trace")


def _openb(files: Sequence[Path], advance: Advance) -> ArrivalTrace:
    """Pods with the time between their scheduling and their deletion. BE is batch, all others are prod."""
    arrivals, never = [], 0
    for row in _rows(files[:1], advance):
        at, scheduled, deleted = (_number(row[place], files[0]) for place in (8, 10, 9))
        if not row[10]:
            never += 1
        qos = row[6].lower()
        gpu_milli = int(row[3]) * int(row[4] or 0)
        amounts = {"cpu": int(row[1]), "memory": int(row[2]) * MEBIBYTE, "gpu-milli": gpu_milli}
        arrivals.append(
            WorkloadArrival(
                id=row[0],
                at_s=at,
                duration_s=max(deleted - (scheduled if row[10] else at), 1.0),
                amounts={resource: amount for resource, amount in amounts.items() if amount > 0},
                tier=Tier.BATCH if qos == "be" else Tier.PROD,
                groups=(f"{qos}-{'gpu' if gpu_milli else 'cpu'}", qos),
            )
        )
    notes = [f"{never} pods that were never scheduled run as long as they waited"] if never else []
    return _trace(
        "openb 2023", arrivals, max((arrival.at_s + arrival.duration_s for arrival in arrivals), default=0.0), notes
    )


def _google(files: Sequence[Path], advance: Advance) -> ArrivalTrace:
    """Tasks with the time from schedule to the end. Amounts are shares of the largest machine: 1 is 1 core and 1 GiB.

    Priorities 0 and 1 are free, 2 to 8 batch, above prod, as the trace's own description has it.
    """
    tasks: dict[tuple[str, str], list[str]] = {}
    began: dict[tuple[str, str], float] = {}
    arrivals: list[WorkloadArrival] = []
    last_s = GOOGLE_BEGIN_S
    before = never = 0

    def ended(key: tuple[str, str], at_s: float) -> None:
        row, start_s = tasks.pop(key), began.pop(key, None)
        if start_s is not None:
            arrivals.append(_task(row, len(arrivals), max(at_s - start_s, 1.0)))

    for row in _rows(files, advance, header=False):
        at_s, key, kind = _number(row[0], files[0]) / 1e6, (row[2], row[3]), int(row[5])
        last_s = max(last_s, at_s)
        if kind == _SUBMIT and at_s >= GOOGLE_BEGIN_S:
            tasks[key] = row
        elif kind == _SUBMIT:
            before += 1
        elif key in tasks and kind == _SCHEDULE:
            began[key] = at_s
        elif key in tasks and kind in _ENDS:
            never += key not in began
            ended(key, at_s)
    unfinished = len(began)
    never += len(tasks) - unfinished
    for key in list(tasks):
        ended(key, last_s)
    notes = [
        f"{before} tasks that ran before the trace begins are left out, with what they used",
        f"{unfinished} tasks had not ended when the trace ends, and run as long as it saw them",
        f"{never} tasks that were never scheduled are left out",
        "1 core and 1 GiB stand for the largest machine's CPU and memory",
    ]
    return _trace("Google clusterdata 2011", arrivals, last_s, notes)


def _task(row: list[str], number: int, duration_s: float) -> WorkloadArrival:
    priority = int(row[8])
    band, tier = (
        ("free", Tier.FREE) if priority <= 1 else ("batch", Tier.BATCH) if priority <= 8 else ("prod", Tier.PROD)
    )
    user = _NO_NAME.sub("", row[6].lower())[:6]
    amounts = {"cpu": round(float(row[9] or 0) * 1000), "memory": round(float(row[10] or 0) * GIBIBYTE)}
    return WorkloadArrival(
        id=f"{row[2]}-{row[3]}-{number}",
        at_s=float(row[0]) / 1e6,
        duration_s=duration_s,
        amounts={resource: amount for resource, amount in amounts.items() if amount > 0},
        tier=tier,
        priority=priority,
        groups=(f"{band}-{user}", f"{band}-other", band),
    )


def _trace(source: str, arrivals: list[WorkloadArrival], end_s: float, notes: list[str]) -> ArrivalTrace:
    empty = sum(not arrival.amounts for arrival in arrivals)
    if empty:
        notes = [*notes, f"{empty} that request nothing are left out"]
    kept = sorted((arrival for arrival in arrivals if arrival.amounts), key=lambda arrival: (arrival.at_s, arrival.id))
    return ArrivalTrace(source, kept, end_s, notes)


def _rows(files: Sequence[Path], advance: Advance, *, header: bool = True) -> Iterator[list[str]]:
    for file in files:
        with opened(file) as text:
            for number, row in enumerate(csv.reader(text)):
                if number % 1000 == 0:
                    advance(1000)
                if row and not (header and number == 0):
                    yield row


def _number(text: str, file: Path) -> float:
    try:
        return float(text or 0)
    except ValueError as error:
        raise InvalidInput(f"{file}: {text!r} is no time") from error
