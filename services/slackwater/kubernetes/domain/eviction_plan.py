"""Plans the evictions of pods through the API server: which to call now, and which have ended. Pure.

WAITING ──call──▶ CALLED ──accepted──▶ ACCEPTED ──pod gone──▶ COMPLETED
   ▲                │  └─ pod is being deleted: the answer was lost, not the call ─▶ ACCEPTED
   └────refused─────┘     deadline, withdrawn, protected, gone, another pod ──────▶ COMPLETED

A call is stored as CALLED before it is made. An accepted eviction is never called again, none is called after its
deadline, and each names the uid that the decision named. `after_answer` is the same machine for the server's answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from slackwater.apiserver.records import PodRecord
from slackwater.model.bounds import Count, Moment, Name, Text
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.pods import FAILED
from slackwater.model.records import record
from slackwater.waterline.facts import eviction_marks as marks

ANSWER_SECONDS: Final = 16.0
"""A call without an answer is made again after this time, if the pod is not being deleted."""
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 10.0
AFTER_GRACE_SECONDS: Final = 10.0
"""A pod that is gone later than so long after its grace was killed."""
STUCK_SECONDS: Final = 300.0
"""A pod that still exists so long after its grace is held by a finalizer, or its node is away."""


class EvictionMode(StrEnum):
    """What is done with the evictions that decisions want."""

    CARRY_OUT = "carry-out"
    DRY_RUN = "dry-run"
    """The API server only says what it would do."""
    OFF = "off"


class EvictionPhase(StrEnum):
    """See the module's docstring."""

    WAITING = "waiting"
    CALLED = "called"
    ACCEPTED = "accepted"
    COMPLETED = "completed"


@record(frozen=True, slots=True)
class TrackedEviction:
    """One eviction of a node. `cause` is the event that asked for it, `pod` is `NAMESPACE/NAME` once it is known.

    `due_at`: no call before; for CALLED the time from which it may be repeated. `refusal` is why the last call had no
    effect.
    """

    id: Name
    pod_uid: Name
    writer: Name
    decision_id: Name
    grace_seconds: float
    deadline: Moment
    cause: Name
    traceparent: Text = ""
    pod: Name = ""
    phase: EvictionPhase = EvictionPhase.WAITING
    calls: Count = 0
    due_at: Moment | None = None
    accepted_at: Moment | None = None
    refusal: Text = ""
    outcome: EvictionOutcome | None = None
    detail: Text = ""
    completed_at: Moment | None = None

    @property
    def ends_by(self) -> datetime:
        """When the grace of an accepted eviction has passed."""
        return (self.accepted_at or self.deadline) + timedelta(seconds=self.grace_seconds)

    @property
    def is_under_way(self) -> bool:
        return self.phase in (EvictionPhase.CALLED, EvictionPhase.ACCEPTED)


@record(frozen=True, slots=True)
class NodeEvictions:
    """What is known and wanted of one node. `wanted` are the evictions in the newest documents of all writers, as
    WAITING; `may_begin` are the writers whose document holds. `pods` are the node's pods by uid."""

    node: Name
    tracked: tuple[TrackedEviction, ...]
    wanted: tuple[TrackedEviction, ...]
    may_begin: frozenset[str]
    pods: Mapping[str, PodRecord]


@record(frozen=True, slots=True)
class EvictionCall:
    """One call of the API server. `grace_seconds` are whole, because Kubernetes knows no others."""

    node: Name
    id: Name
    pod: Name
    uid: Name
    grace_seconds: int
    deadline: Moment
    dry_run: bool


@record(frozen=True, slots=True)
class EvictionPlan:
    """`tracked` is the state by node that has to be stored before the calls are made; when to plan again without
    news."""

    tracked: Mapping[str, tuple[TrackedEviction, ...]]
    calls: tuple[EvictionCall, ...]
    again_at: datetime | None


class ServerAnswer(StrEnum):
    """What the API server said to a call."""

    ACCEPTED = "accepted"
    BUDGET = "budget"
    GONE = "gone"
    OTHER_POD = "other_pod"
    FAILED = "failed"
    """It was away or refused: whether the call had an effect is not known."""


@record(frozen=True, slots=True)
class CallAnswer:
    """`retry_after_seconds` counts with BUDGET."""

    answer: ServerAnswer
    message: str = ""
    retry_after_seconds: float = 0.0


def plan_evictions(nodes: Iterable[NodeEvictions], mode: EvictionMode, now: datetime) -> EvictionPlan:
    """The next state of each node, and the calls that are due."""
    tracked: dict[str, tuple[TrackedEviction, ...]] = {}
    calls: list[EvictionCall] = []
    again: list[datetime] = []
    for node in nodes:
        wanted = {eviction.id: eviction for eviction in node.wanted}
        known = {eviction.id: eviction for eviction in node.tracked}
        leaving = {eviction.pod_uid for eviction in node.tracked if eviction.is_under_way}
        after = list[TrackedEviction]()
        for before in {**wanted, **known}.values():
            if _is_over(before, wanted, now):
                continue
            eviction = _next(before, node, before.id in wanted, leaving, mode, now)
            if eviction.phase is EvictionPhase.CALLED and eviction.calls > before.calls:
                leaving.add(eviction.pod_uid)
                calls.append(_call(node.node, eviction, mode))
            after.append(eviction)
            again += _times(eviction)
        tracked[node.node] = tuple(after)
    return EvictionPlan(tracked, tuple(calls), min((at for at in again if at > now), default=None))


def after_answer(eviction: TrackedEviction, answer: CallAnswer, mode: EvictionMode, now: datetime) -> TrackedEviction:
    """The eviction after the server's answer to its call."""
    match answer.answer:
        case ServerAnswer.ACCEPTED if mode is EvictionMode.DRY_RUN:
            return _completed(eviction, EvictionOutcome.REFUSED, "dry run: the API server would evict it", now)
        case ServerAnswer.ACCEPTED:
            return replace(eviction, phase=EvictionPhase.ACCEPTED, accepted_at=now, due_at=None, refusal="")
        case ServerAnswer.GONE:
            return _completed(eviction, EvictionOutcome.ALREADY_GONE, "the API server has no such pod", now)
        case ServerAnswer.OTHER_POD:
            return _completed(eviction, EvictionOutcome.ALREADY_GONE, "another pod has its name", now)
        case ServerAnswer.BUDGET:
            due = now + timedelta(seconds=max(FIRST_PAUSE_SECONDS, answer.retry_after_seconds))
            return replace(eviction, phase=EvictionPhase.WAITING, due_at=due, refusal=answer.message)
        case ServerAnswer.FAILED:
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * math.ldexp(1, min(eviction.calls - 1, 10)))
            return replace(eviction, due_at=now + timedelta(seconds=pause), refusal=answer.message)


def _is_over(eviction: TrackedEviction, wanted: Mapping[str, TrackedEviction], now: datetime) -> bool:
    """Whether it can be forgotten: answered, no longer wanted, and past the time at which it could begin again."""
    return eviction.phase is EvictionPhase.COMPLETED and eviction.id not in wanted and now > eviction.deadline


def _next(
    eviction: TrackedEviction,
    node: NodeEvictions,
    is_wanted: bool,
    leaving: set[str],
    mode: EvictionMode,
    now: datetime,
) -> TrackedEviction:
    pod = node.pods.get(eviction.pod_uid)
    if pod is not None and _has_ended(eviction, pod):
        pod = None
    match eviction.phase:
        case EvictionPhase.COMPLETED:
            return eviction
        case EvictionPhase.ACCEPTED:
            return _leaving(eviction, pod, now)
        case EvictionPhase.CALLED:
            if (called := _called(eviction, pod, now)) is not None:
                return called
    if pod is None:
        return _completed(eviction, EvictionOutcome.ALREADY_GONE, "no such pod on this node", now)
    if (ended := _ended(eviction, pod, is_wanted, mode, now)) is not None:
        return ended
    other = eviction.phase is EvictionPhase.WAITING and eviction.pod_uid in leaving
    is_late = eviction.due_at is not None and now < eviction.due_at
    if pod.deleting or other or is_late or eviction.writer not in node.may_begin:
        return eviction
    due = now + timedelta(seconds=ANSWER_SECONDS)
    return replace(eviction, phase=EvictionPhase.CALLED, pod=pod.key, calls=eviction.calls + 1, due_at=due)


REMOVES_FAILED: Final = "migration"
"""Writer whose evictions also remove failed pods that are listed still (slackwater.intents.controls.MIGRATION)."""


def _has_ended(eviction: TrackedEviction, pod: PodRecord) -> bool:
    """Whether nothing of the pod is left to evict. Moves also remove failed pods that are listed still; the API server
    asks no budget about those."""
    is_removed = eviction.writer == REMOVES_FAILED and not pod.deleting
    return pod.phase == "Succeeded" or (pod.phase == FAILED and not is_removed)


def _called(eviction: TrackedEviction, pod: PodRecord | None, now: datetime) -> TrackedEviction | None:
    """What became of a call without a final answer; None: it had no effect, and may be made again."""
    if pod is None:
        return _completed(eviction, EvictionOutcome.TERMINATED, "it ended after the call", now)
    if pod.deleting:
        return _leaving(replace(eviction, phase=EvictionPhase.ACCEPTED, accepted_at=now, due_at=None), pod, now)
    return eviction if eviction.due_at is not None and now < eviction.due_at else None


def _ended(
    eviction: TrackedEviction, pod: PodRecord, is_wanted: bool, mode: EvictionMode, now: datetime
) -> TrackedEviction | None:
    """The eviction of a living pod that must not begin; None: it may."""
    if now >= eviction.deadline:
        return _completed(eviction, EvictionOutcome.EXPIRED, _why_expired(eviction, pod), now)
    if not is_wanted:
        why = f"withdrawn by {eviction.writer}" + (f"; {eviction.refusal}" if eviction.refusal else "")
        return _completed(eviction, EvictionOutcome.EXPIRED, why, now)
    if refusal := refused(pod, mode):
        return _completed(eviction, EvictionOutcome.REFUSED, refusal, now)
    return None


def refused(pod: PodRecord, mode: EvictionMode = EvictionMode.CARRY_OUT) -> str:
    """Why a pod is not evicted, whatever a document says; empty if it may be. The agent's driver knows the same of its
    own pods; mirror pods and those of DaemonSets are Kubernetes' own cases."""
    if mode is EvictionMode.OFF:
        return "evictions are off (SLACKWATER_KUBERNETES_EVICTIONS)"
    namespace = pod.key.partition("/")[0]
    if namespace in SYSTEM_NAMESPACES or pod.priority >= marks.SYSTEM_CRITICAL:
        return "pods of the system are never evicted"
    labels = dict(pod.labels)
    if labels.get("app.kubernetes.io/part-of") == "slackwater":
        return "Slackwater's own pods are never evicted"
    kept = marks.first_of(labels, marks.PROTECTED)
    if kept is not None:
        return f"the pod is protected: {kept}"
    owner = "" if pod.owner is None else pod.owner.kind
    return REFUSED_OWNERS.get(owner, "")


SYSTEM_NAMESPACES: Final = marks.SYSTEM_NAMESPACES | {"kube-public", "kube-node-lease"}
REFUSED_OWNERS: Final = {
    "Node": "static pods are never evicted",
    "DaemonSet": "a DaemonSet would start the pod on the same node again",
}


def _leaving(eviction: TrackedEviction, pod: PodRecord | None, now: datetime) -> TrackedEviction:
    """An accepted eviction, until its pod has ended."""
    if pod is None:
        killed = now > eviction.ends_by + timedelta(seconds=AFTER_GRACE_SECONDS)
        if killed:
            return _completed(eviction, EvictionOutcome.KILLED, f"outlived {eviction.grace_seconds:g} s of grace", now)
        return _completed(eviction, EvictionOutcome.TERMINATED, "ended within its grace", now)
    if now >= eviction.ends_by + timedelta(seconds=STUCK_SECONDS):
        why = f"still there {STUCK_SECONDS:g} s after its grace: a finalizer holds it, or the node is away"
        return _completed(eviction, EvictionOutcome.FAILED, why, now)
    return eviction


def _why_expired(eviction: TrackedEviction, pod: PodRecord) -> str:
    if eviction.refusal:
        return f"after {eviction.calls} calls: {eviction.refusal}"
    return "it is being deleted by another" if pod.deleting else "the deadline had passed before it could begin"


def _completed(eviction: TrackedEviction, outcome: EvictionOutcome, detail: str, now: datetime) -> TrackedEviction:
    return replace(
        eviction, phase=EvictionPhase.COMPLETED, outcome=outcome, detail=detail, completed_at=now, due_at=None
    )


def _call(node: str, eviction: TrackedEviction, mode: EvictionMode) -> EvictionCall:
    return EvictionCall(
        node,
        eviction.id,
        eviction.pod,
        eviction.pod_uid,
        math.ceil(eviction.grace_seconds),
        eviction.deadline,
        mode is EvictionMode.DRY_RUN,
    )


def _times(eviction: TrackedEviction) -> Iterable[datetime]:
    """When the eviction changes without news."""
    match eviction.phase:
        case EvictionPhase.WAITING:
            yield eviction.deadline
        case EvictionPhase.ACCEPTED:
            yield eviction.ends_by + timedelta(seconds=STUCK_SECONDS)
        case EvictionPhase.COMPLETED:
            return
    if eviction.due_at is not None:
        yield eviction.due_at
