"""Offers of the story's nodes: mid first, batch from the rest, each amount with its decision record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay, Term
from slackwater.events.resources_offered import ResourcesOffered, ZoneOffered
from slackwater.model.quantities import Resources

GIB = 2**30
RESERVED_MILLI = 400
MID_MILLI = 420
PROD_REQUESTS_MILLI = 5000
SUBJECTS = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
Part = tuple[str, int, str, str]
"""A term: name, value, note, and source event."""


@dataclass(frozen=True, slots=True)
class StoryMoment:
    """Time and inputs of an offer: `peak` is prod's predicted CPU (milli-cores), `cause` the triggering event."""

    node: str
    capacity: Resources
    peak: int
    sampled_at: datetime
    decided_at: datetime
    generation: int
    cause: str
    degraded: str | None = None
    recovered: bool = False
    strategies: tuple[str, ...] = ("cluster@3",)
    zones: int = 1

    @property
    def reason(self) -> Reason:
        if self.degraded:
            return Reason.OFFER_DEGRADED
        if self.recovered:
            return Reason.OFFER_RECOVERED
        return Reason.OFFER_FIRST if self.generation == 1 else Reason.OFFER_CHANGED


def records_of(moment: StoryMoment, batch_cpu_id: str) -> tuple[DecisionRecord, ...]:
    """One record per subject, in the order of SUBJECTS."""
    mid_cpu, mid_memory = _mid_cpu(moment), _mid_memory(moment)
    batch_cpu, batch_memory = _batch_cpu(moment), _batch_memory(moment)
    parts = (batch_cpu, batch_memory, mid_cpu, mid_memory)
    names = (batch_cpu_id, *(_identifier(moment, subject) for subject in SUBJECTS[1:]))
    return tuple(
        _record(moment, subject, identity, part) for subject, identity, part in zip(SUBJECTS, names, parts, strict=True)
    )


def offered(moment: StoryMoment, records: tuple[DecisionRecord, ...]) -> ResourcesOffered:
    """The event with the amounts of the four records."""
    batch_cpu, batch_memory, mid_cpu, mid_memory = (record.result for record in records)
    count = moment.zones
    zones = tuple(
        ZoneOffered(f"node{place}", Resources(batch_cpu // count, batch_memory // count)) for place in range(count)
    )
    return ResourcesOffered(
        node=moment.node,
        offered_at=moment.decided_at,
        generation=moment.generation,
        batch=Resources(batch_cpu, batch_memory),
        degraded=moment.degraded,
        decision_ids={record.subject: record.id for record in records},
        mid=Resources(mid_cpu, mid_memory),
        zones=zones if count > 1 else (),
        reason=str(moment.reason),
        strategies=moment.strategies,
    )


def _batch_cpu(moment: StoryMoment) -> list[Part]:
    capacity = moment.capacity.cpu_milli
    parts = [
        ("capacity", capacity, "all the machine has", "node.described"),
        ("reserved", -RESERVED_MILLI, "kept back by the operator", "node.described"),
        ("margin", -(capacity * 20 // 100), "reclaim threshold 80 %", "policy default"),
        ("system", -320, "peak of what no pod uses", moment.cause),
        ("prod peak", -moment.peak, "pod view and tier view, the safer", moment.cause),
        ("mid peak", -MID_MILLI, "", moment.cause),
    ]
    if moment.degraded:
        left = sum(value for _, value, _, _ in parts)
        parts.append(("decay", -(left // 3), moment.degraded, moment.cause))
    return _floored(parts)


def _batch_memory(moment: StoryMoment) -> list[Part]:
    capacity = moment.capacity.memory_bytes
    return _floored(
        [
            ("capacity", capacity, "", "node.described"),
            ("safety_margin", -(capacity * 35 // 100), "35 % of capacity", "strategy cluster@3"),
            ("reserved", -GIB, "system uses 0.5 GiB", "node.described"),
            ("prod", -2 * GIB, "2 by predicted peak", moment.cause),
            ("mid", -GIB, "1 by predicted peak", moment.cause),
        ]
    )


def _mid_cpu(moment: StoryMoment) -> list[Part]:
    needs = ("prod_peak", -moment.peak, "what prod is predicted to need", moment.cause)
    parts = _floored([("prod_allocated", PROD_REQUESTS_MILLI, "100 % of requests", moment.cause), needs])
    over = sum(value for _, value, _, _ in parts) - MID_MILLI
    if over > 0:
        parts.append(("cap", -over, "at most 5 % of allocatable", "strategy cluster@3"))
    return parts


def _mid_memory(moment: StoryMoment) -> list[Part]:
    return [
        ("prod_allocated", 2 * GIB, "100 % of requests", moment.cause),
        ("prod_peak", -GIB, "what prod is predicted to need", moment.cause),
    ]


def _floored(parts: list[Part]) -> list[Part]:
    total = sum(value for _, value, _, _ in parts)
    return [*parts, ("floor", -total, "an offer is never negative", "")] if total < 0 else parts


def _identifier(moment: StoryMoment, subject: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"{moment.node}/{subject}/{moment.decided_at.isoformat()}"))


def _record(moment: StoryMoment, subject: str, identity: str, parts: list[Part]) -> DecisionRecord:
    unit = "bytes" if subject.endswith("memory") else "milli"
    terms = tuple(Term(name=name, value=value, note=note) for name, value, note, _ in parts)
    return DecisionRecord(
        id=identity,
        kind=DecisionKind.OFFER,
        node=moment.node,
        subject=subject,
        service="colocation",
        rule="dynamic" if subject.startswith("mid") else "usage",
        reason=moment.reason,
        decided_at=moment.decided_at,
        trigger_event_id=moment.cause,
        inputs=tuple(
            Input(name=name, value=abs(value), unit=unit, source=source, observed_at=moment.sampled_at)
            for name, value, _, source in parts
            if source
        ),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=unit,
        alternatives=(
            Alternative(what="keep the offer before", rejected_because="it differs by more than 5 % of capacity"),
        ),
        replay=Replay(function="tests.support.story:total", arguments={"values": [t.value for t in terms]}),
    )
