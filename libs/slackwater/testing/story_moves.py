"""The moves of the story: jobs in every stage, two held by limits, one that left its workload without a replica."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from slackwater.events.envelope import Event, event_of
from slackwater.events.migration_changed import MigrationChanged


def moves(start: datetime, seconds: int) -> list[Event[Any]]:
    """Returns the states of all jobs; the last changes are at the end of so many seconds from `start`."""
    return [
        event_of(job, source="migration", time=job.changed_at, id=str(uuid5(NAMESPACE_URL, f"move/{number}")))
        for number, job in enumerate(_jobs(start + timedelta(seconds=seconds)))
    ]


def _jobs(end: datetime) -> Iterator[MigrationChanged]:
    def job(number: int, ago: float, phase: str, step: str, **fields: Any) -> MigrationChanged:
        return MigrationChanged(
            **{
                "job": f"move-{number:08d}",
                "source": "descheduler",
                "pod_uid": f"uid-{number}",
                "namespace": "shop",
                "pod": f"render-{number}",
                "workload": "shop/render",
                "node": "edge-7",
                "phase": phase,
                "step": step,
                "changed_at": end - timedelta(seconds=ago),
                **fields,
            }
        )

    for number in (1, 2):
        yield job(
            number,
            300 - number,
            "Pending",
            "waiting",
            held_by="node",
            hold_scope="edge-7",
            hold_count=2,
            hold_limit=2,
            message="held by node of edge-7: 2 of 2",
        )
    yield job(
        3,
        120,
        "Pending",
        "waiting",
        held_by="workload_unavailable",
        hold_scope="shop/speech-of-low-resource-languages",
        hold_count=1,
        hold_limit=1,
        message="held by workload_unavailable of shop/speech-of-low-resource-languages: 1 of 1",
    )
    yield job(4, 40, "Running", "admitted", message="pool edge is in mode throttle")
    yield job(5, 20, "Running", "reserving", message="no node has room yet")
    yield job(6, 30, "Running", "evicting", target_node="edge-9", reason="Evicting")
    yield job(7, 12, "Running", "replacing", target_node="edge-9", reason="WaitForBoundPodReady", replacement="uid-77")
    for number in (8, 9, 10):
        yield job(number, 100 * number, "Running", "evicting", target_node="edge-8", reason="Evicting")
        yield job(
            number,
            60 * number,
            "Succeeded",
            "ended",
            target_node="edge-8",
            reason="Complete",
            outcome="moved",
            replacement=f"uid-{number}b",
        )
    yield job(
        11,
        400,
        "Failed",
        "ended",
        target_node="edge-9",
        reason="Timeout",
        outcome="replacement_pending",
        message="the replacement was not ready within 300 s",
    )
    yield job(12, 200, "Aborted", "ended", reason="Aborted", outcome="old_pod_runs", source="", job="by-hand")
