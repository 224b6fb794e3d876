"""The moves of the story: jobs in every stage, two held by limits, one that left its workload without a replica."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Input, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.migration_changed import MigrationChanged


def moves(start: datetime, seconds: int) -> list[Event[Any]]:
    """Returns the states of all jobs; the last changes are at the end of so many seconds from `start`."""
    return [
        event_of(job, source="migration", time=job.changed_at, id=str(uuid5(NAMESPACE_URL, f"move/{number}")))
        for number, job in enumerate(_jobs(start + timedelta(seconds=seconds)))
    ]


def gains(start: datetime, seconds: int) -> list[Event[Any]]:
    """Returns the records of what two of the moves gained: one as expected, one less."""
    end = start + timedelta(seconds=seconds)
    return [
        event_of(
            DecisionRecorded(
                record=gain_record(f"move-{number:08d}", end - timedelta(seconds=ago), before, after, plan)
            ),
            source="descheduler",
            time=end - timedelta(seconds=ago),
            id=str(uuid5(NAMESPACE_URL, f"gain/{number}")),
        )
        for number, ago, before, after, plan in ((8, 400, 0.82, 0.55, 0.25), (9, 460, 0.71, 0.63, 0.2))
    ]


def gain_record(job: str, at: datetime, before: float, after: float, expected: float) -> DecisionRecord:
    """Returns the record of a measured gain as the descheduler writes it."""

    def figure(name: str, value: float, source: str = "agents' reports") -> Input:
        return Input(name=name, value=round(value, 4), unit="", source=source)

    terms = (
        Term(name="load of edge-7 before", value=round(before * 1000), input="load before"),
        Term(name="load of the new node now", value=-round(after * 1000), input="load now"),
    )
    return DecisionRecord(
        id=str(uuid5(NAMESPACE_URL, f"gain/{job}")),
        kind=DecisionKind.MIGRATION,
        node="edge-7",
        subject=job,
        service="descheduler",
        rule="gain",
        reason=Reason.MIGRATION_MEASURED,
        decided_at=at,
        trigger_event_id=None,
        inputs=(
            figure("load before", before, "plan 1f"),
            figure("load now", after),
            figure("expected gain", expected, "plan 1f"),
            figure("measured gain", before - after),
        ),
        terms=terms,
        result=sum(term.value for term in terms),
        unit="permille",
        remaining_because=f"gained {before - after:.1%} of load, expected {expected:.1%}",
        replay=Replay(function="tests.support.story:total", arguments={"values": [term.value for term in terms]}),
    )


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
