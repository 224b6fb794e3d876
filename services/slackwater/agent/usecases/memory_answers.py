"""What is in force of the requested memory limits, for reports and for the answers to documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from slackwater.agent.domain.controls.cpu_limit import milli
from slackwater.agent.domain.controls.memory_high import MEMORY_HIGH
from slackwater.agent.domain.knobs import BUSY
from slackwater.agent.domain.protected_pods import PROTECTED
from slackwater.agent.usecases.actuate import Outcome
from slackwater.agent.usecases.apply_controls import ApplyControls
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import ObservedMemoryLimit
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.pods import Pod

MemoryLimits = Mapping[str, tuple[int | None, int | None]]
"""By pod uid, the upper memory level in force and the one before us; None = unlimited."""


def memory_limits(apply: ApplyControls, pods: Sequence[Pod]) -> dict[str, tuple[int | None, int | None]]:
    """Pods whose level cannot be read now are missing."""
    limits = {}
    for pod in pods:
        with suppress(NotFound, Misconfigured):
            now, original = apply.values(MEMORY_HIGH, pod.uid)
            limits[pod.uid] = (milli(now), milli(original))
    return limits


def failed_pods(apply: ApplyControls, outcome: Outcome, pods: Sequence[Pod]) -> set[str]:
    """Pods whose level these steps failed to set or had to yield. A kernel that is busy is asked again."""
    touched = {knob for knob, why in outcome.errors.items() if why != BUSY} | outcome.yielded.keys()
    uids: set[str] = set()
    for pod in pods if touched else ():
        with suppress(NotFound):
            if apply.driver.knob(MEMORY_HIGH, pod.uid) in touched:
                uids.add(pod.uid)
    return uids


def changed_pods(before: IntentDeclared | None, after: IntentDeclared) -> set[str]:
    """Pods whose wanted level differs between two documents of one writer."""
    old = {item.pod_uid: item.memory_high_bytes for item in (before.memory_throttles if before is not None else ())}
    new = {item.pod_uid: item.memory_high_bytes for item in after.memory_throttles}
    return {uid for uid in old.keys() | new.keys() if old.get(uid) != new.get(uid)}


def answers(
    apply: ApplyControls, document: IntentDeclared, uids: Iterable[str], outcome: Outcome, protected: frozenset[str]
) -> tuple[ObservedMemoryLimit, ...]:
    """The levels of these pods, read back."""
    decisions = {item.pod_uid: item.decision_id for item in document.memory_throttles}
    return tuple(_answer(apply, uid, decisions.get(uid), outcome, protected) for uid in sorted(uids))


def _answer(
    apply: ApplyControls, uid: str, decision_id: str | None, outcome: Outcome, protected: frozenset[str]
) -> ObservedMemoryLimit:
    try:
        knob = apply.driver.knob(MEMORY_HIGH, uid)
        now = milli(apply.driver.parse(knob, apply.driver.read(knob)))
    except (NotFound, Misconfigured) as error:
        code = "not_found" if isinstance(error, NotFound) else error.code
        return ObservedMemoryLimit(pod_uid=uid, memory_high_bytes=None, error=code, decision_id=decision_id)
    reason = "foreign_writer" if knob in apply.foreign else outcome.errors.get(knob)
    if decision_id is not None and uid in protected:
        reason = PROTECTED
    error_code = None if reason == BUSY else reason
    return ObservedMemoryLimit.model_construct(  # bounded where it is published, as a CPU limit is
        pod_uid=uid, memory_high_bytes=now, error=error_code, decision_id=decision_id
    )
