"""The decisions about one pod: the actions, the times it was spared with the reason, and the effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.arithmetic import relief_of, working_of
from slackwater.console.domain.candidates import candidates_of, is_carried_out
from slackwater.console.domain.views import EffectView, EvictionView, PodView
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import CpusetChange, DecisionRecord, MemoryLimit


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """A known pod. `is_running` is as of its node's last report; otherwise only decisions know the pod. `seen_at` is
    the time of that report, or of the last decision that considered the pod.
    """

    uid: str
    name: str
    namespace: str
    node: str
    is_running: bool
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class PodPart:
    """A pod's part in one decision. `place` is its position among `candidates` (None: it was no candidate); `because`
    is why it was spared. `released` and `would_release` are in `unit`. `ended` is the outcome of its eviction, `relief`
    the effect in a sentence. `working` is the arithmetic of the whole decision.
    """

    id: str
    kind: DecisionKind
    node: str
    decided_at: datetime
    service: str
    rule: str
    mode: Mode | None
    reason: Reason
    chosen: bool
    carried_out: bool
    place: int | None
    candidates: int
    order: str
    keys: tuple[float, ...]
    unit: str
    released: int | None
    would_release: int | None
    because: str
    limit_before_milli: int | None
    limit_after_milli: int | None
    evicted: bool
    ended: str | None
    effect: EffectView | None
    relief: str
    working: tuple[str, ...]
    memory: MemoryLimit | None = None
    """Set if its memory limit changed."""
    cpuset: CpusetChange | None = None
    """Set if the CPUs changed that it may run on."""


@dataclass(frozen=True, slots=True)
class PodWhy:
    """The decisions about a pod. `running` is the pod as its node last reported it, None if it is gone. `decisions` are
    newest first.
    """

    pod: PodIdentity
    running: PodView | None
    decisions: tuple[PodPart, ...]


def part_of(
    record: DecisionRecord, uid: str, effect: EffectView | None, evictions: Sequence[EvictionView]
) -> PodPart | None:
    """The pod's part in a decision; None if the decision does not concern the pod."""
    rows = candidates_of(record)
    own = next((row for row in rows if row.pod_uid == uid), None)
    if own is None:
        return None
    action = next((action for action in record.actions if action.pod_uid == uid), None)
    return PodPart(
        id=record.id,
        kind=record.kind,
        node=record.node,
        decided_at=record.decided_at,
        service=record.service,
        rule=record.rule,
        mode=record.mode,
        reason=record.reason,
        chosen=own.chosen,
        carried_out=own.chosen and is_carried_out(record),
        place=own.place,
        candidates=sum(row.place is not None for row in rows),
        order=record.order,
        keys=own.keys,
        unit=record.unit,
        released=own.released,
        would_release=own.would_release,
        because=own.because,
        limit_before_milli=action.cpu_limit_before_milli if action else None,
        limit_after_milli=action.cpu_limit_after_milli if action else None,
        memory=action.memory if action else None,
        cpuset=action.cpuset if action else None,
        evicted=bool(action and action.evicted),
        ended=next((eviction.outcome for eviction in evictions if eviction.pod_uid == uid), None),
        effect=effect,
        relief="" if effect is None else relief_of(record, effect),
        working=working_of(record),
    )


def narrowed(
    found: Iterable[PodIdentity],
    asked: str,
    node: str | None,
    namespace: str | None,
    not_yet: Collection[str] = (),
) -> tuple[PodIdentity, ...]:
    """The pods that a request means; more than one if it is ambiguous. A uid means one pod. Among pods of a name,
    running pods precede pods that are gone, and of successive pods in one place the last is meant. `not_yet` are uids
    of pods that had not started at the requested time; they are meant only if no other pod is.
    """
    among = [one for one in found if node in (None, one.node) and namespace in (None, one.namespace)]
    exact = [one for one in among if one.uid == asked]
    among = [one for one in among if one.uid not in not_yet] or among
    wanted = exact or [one for one in among if one.is_running] or among
    places: dict[tuple[str, str, str], PodIdentity] = {}
    for one in sorted(wanted, key=lambda each: each.seen_at):
        places[one.namespace, one.node, one.uid if one.is_running else ""] = one
    return tuple(places[place] for place in sorted(places))
