"""Decision records and events about moves."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, DecisionRecord, Input, Replay, Term
from slackwater.events.migration_changed import MigrationChanged
from slackwater.migration.domain.arbitration_round import REFUSED
from slackwater.migration.domain.job_replay import (
    ADMISSION,
    RANK,
    START,
    STEP,
    admission_arguments,
    job_document,
    step_arguments,
)
from slackwater.migration.domain.migration_round import JobStep
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.podmigration.jobs import MigrationJob, MigrationPhase, MigrationStep
from slackwater.podmigration.lifecycle import StartAnswer
from slackwater.podmigration.snapshot import MigrationSnapshot

SERVICE: Final = "migration"
ARBITRATE: Final = "arbitrate"
ADVANCE: Final = "advance"
NOWHERE: Final = "migration:jobs"
"""In the place of a node in records about jobs whose pod is on none. No node has a colon in its name."""
DOWNTIME_SOURCE: Final = "agents' answers, server's clock"
MOST_REPLAYED: Final = 60
"""Jobs in the arguments of a replay; records about more are compact, because each holds them all."""
_IDS: Final = uuid.UUID("6f2c9a04-5b16-5d61-8a9e-3c5a4d0b7e35")
_ENDS: Final[Mapping[MigrationPhase, Reason]] = {
    MigrationPhase.SUCCEEDED: Reason.MIGRATION_SUCCEEDED,
    MigrationPhase.FAILED: Reason.MIGRATION_FAILED,
    MigrationPhase.ABORTED: Reason.MIGRATION_ABORTED,
}


def admission_record(stored: StoredJob, snapshot: MigrationSnapshot, generation: int, now: datetime) -> DecisionRecord:
    """Returns the record of a round about one job: admitted, refused, or held and by what."""
    hold, step = stored.hold, stored.job.step
    small = len(snapshot.waiting) + len(snapshot.active) <= MOST_REPLAYED
    if step is MigrationStep.ADMITTED:
        reason, terms, text = Reason.MIGRATION_ADMITTED, [Term(name="admitted", value=1)], "no limit holds it"
    elif hold is None:
        what = "replicas to spare" if stored.job.message == REFUSED else "evictions of its pod"
        reason, terms, text = Reason.MIGRATION_REFUSED, [Term(name=what, value=0)], stored.job.message
    else:
        reason, text = Reason.MIGRATION_HELD, hold.message
        terms = [Term(name="limit", value=hold.limit), Term(name="in use", value=-hold.count, note=hold.scope)]
    arguments = admission_arguments(snapshot, now.timestamp(), stored.name) if small else {}
    inputs = [
        _input("waiting jobs", len(snapshot.waiting), "ledger"),
        _input("jobs under way", len(snapshot.active), "ledger"),
        _input("queued", snapshot.queued, "ledger"),
        _input("interval", snapshot.args.interval_s, "arbitrationargs/default"),
    ]
    if hold is not None:
        inputs += [
            _input("filter", hold.filter.value, "arbitrationargs/default"),
            _input("scope", hold.scope, "ledger"),
        ]
        inputs.append(_input("held since", datetime.fromtimestamp(hold.since_s, UTC).isoformat(), "ledger"))
    inputs += [_input("ignored", problem, "plugin") for problem in snapshot.problems]
    workload = snapshot.workloads.get(stored.pod.workload)
    if workload is not None:
        inputs.append(_input("replicas", workload.replicas, "agents' reports"))
    return DecisionRecord(
        id=_id(stored, f"round|{generation}"),
        kind=DecisionKind.MIGRATION,
        node=stored.job.node or NOWHERE,
        subject=stored.name,
        service=SERVICE,
        rule=ARBITRATE,
        reason=reason,
        decided_at=now,
        trigger_event_id=None,
        inputs=tuple(inputs),
        terms=tuple(terms),
        result=sum(term.value for term in terms),
        unit="room",
        remaining_because=text,
        replay=Replay(function=ADMISSION, arguments=arguments),
        compact=not small,
    )


def step_record(step: JobStep, stored: StoredJob, generation: int, now: datetime) -> DecisionRecord:
    """Returns the record of one step of a move, and of its end."""
    after, now_s = step.after, now.timestamp()
    begins = step.before.step is MigrationStep.ADMITTED and after.step is not MigrationStep.ENDED
    begins = begins or (step.before.dry_run and after.phase is MigrationPhase.SUCCEEDED)
    if begins:
        replay = Replay(function=START, arguments={"job": job_document(step.before), "now_s": now_s})
    else:
        replay = Replay(function=STEP, arguments=step_arguments(step.before, step.view, now_s))
    evicts = after.step is MigrationStep.EVICTING
    action = Action(
        pod_uid=stored.job.pod,
        pod_name=stored.pod.name,
        tier=stored.pod.tier.value,
        cpu_limit_before_milli=None,
        cpu_limit_after_milli=None,
        released_milli=0,
        evicted=True,
        namespace=stored.pod.namespace,
    )
    return DecisionRecord(
        id=_id(stored, f"{after.step.value}|{generation}"),
        kind=DecisionKind.MIGRATION,
        node=stored.job.node or NOWHERE,
        subject=stored.name,
        service=SERVICE,
        rule=ADVANCE,
        reason=_ENDS[after.phase] if after.step is MigrationStep.ENDED else Reason.MIGRATION_STEPPED,
        decided_at=now,
        trigger_event_id=None,
        inputs=_step_inputs(step, stored),
        terms=(Term(name=after.step.value, value=RANK[after.step], note=step_text(after)),),
        result=RANK[after.step],
        unit="step",
        actions=(action,) if evicts else (),
        remaining_because=step_text(after),
        replay=replay,
    )


def step_text(job: MigrationJob) -> str:
    """Returns where a job is, in words."""
    words = [job.step.value if job.outcome is None else job.outcome.value.replace("_", " ")]
    if job.reason:
        words.append(f"({job.reason.value})")
    if job.target_node:
        words.append(f"to {job.target_node}")
    return " ".join(words) + (f": {job.message}" if job.message else "")


def job_event(stored: StoredJob, now: datetime) -> MigrationChanged:
    """Returns the event of a job's new state."""
    job, hold = stored.job, stored.hold
    held: dict[str, Any] = {}
    if hold is not None:
        held = {
            "held_by": hold.filter.value,
            "hold_scope": hold.scope,
            "hold_count": max(hold.count, 0),
            "hold_limit": max(hold.limit, 0),
        }
    return MigrationChanged(
        job=stored.name,
        source=stored.request.source,
        pod_uid=job.pod,
        namespace=stored.pod.namespace,
        pod=stored.pod.name,
        workload=stored.pod.workload,
        node=job.node,
        target_node=job.target_node,
        replacement=job.replacement,
        phase=job.phase.value,
        step=job.step.value,
        reason=job.reason.value,
        message=job.message,
        outcome="" if job.outcome is None else job.outcome.value,
        decision_id=stored.decision,
        changed_at=now,
        **held,
    )


def shown_state(stored: StoredJob) -> tuple[object, ...]:
    """What a job's event is published for."""
    job, hold = stored.job, stored.hold
    held = None if hold is None else (hold.filter, hold.scope)
    message = "" if job.step is MigrationStep.WAITING else job.message  # counts of a hold change all the time
    where = job.target_node, job.replacement
    return job.step, job.start_attempt, job.phase, job.reason, message, job.outcome, where, held, stored.decision


def _step_inputs(step: JobStep, stored: StoredJob) -> tuple[Input, ...]:
    view, job = step.view, step.before
    found = [
        _input("from step", job.step.value, "ledger"),
        _input("mode", job.mode.value, f"podmigrationjob/{stored.name}"),
        _input("old pod", view.pod.value, "agents' reports"),
        _input("reservation", view.reservation.value, "ledger"),
        _input("reservation node", view.reservation_node, "ledger"),
        _input("eviction", view.eviction.value, "eviction.completed"),
        _input("replacement", view.replacement_uid or view.replacement.value, "agents' reports"),
    ]
    if job.start_attempt:
        found.append(_input(f"start on {job.start_node}", view.start.value, "intent.observed"))
        found.append(
            _input("agent says", view.start_detail if view.start is StartAnswer.FAILED else "", job.start_node)
        )
    if step.after.outcome is not None and stored.downtime_s is not None:
        found.append(Input(name="downtime", value=round(stored.downtime_s, 3), unit="s", source=DOWNTIME_SOURCE))
    if stored.request.reason:
        found.append(_input("asked because", stored.request.reason, stored.request.source or "operator"))
    if stored.request.gain:
        found.append(_input("expected gain", stored.request.gain, stored.request.source))
    if stored.request.caused_by:
        found.append(_input("proposed by", stored.request.caused_by, stored.request.source))
    if job.deadline_s is not None:
        found.append(_input("deadline", datetime.fromtimestamp(job.deadline_s, UTC).isoformat(), "ledger"))
    return tuple(found)


def _input(name: str, value: str | float, source: str) -> Input:
    return Input(name=name, value=value, unit="", source=source)


def _id(stored: StoredJob, what: str) -> str:
    return str(uuid.uuid5(_IDS, f"{stored.job.id}|{what}"))
