"""Repeats decisions about moves: cycles of profiles, rounds of arbitration, and steps of jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from slackwater.decisions.reasons import Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.descheduler.domain import cycle_replay, plan_gain, plan_replay
from slackwater.descheduler.usecases.cycle_records import cycle_record
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.profile import CycleTrigger
from slackwater.migration.domain import job_replay
from slackwater.migration.usecases.job_records import step_text
from slackwater.podmigration.arbitration import arbitrate_plainly
from slackwater.podmigration.jobs import MigrationPhase, MigrationReason
from slackwater.podmigration.lifecycle import settle, start

_ENDS = {
    MigrationPhase.SUCCEEDED: Reason.MIGRATION_SUCCEEDED,
    MigrationPhase.FAILED: Reason.MIGRATION_FAILED,
    MigrationPhase.ABORTED: Reason.MIGRATION_ABORTED,
}


def _of_cycle(record: DecisionRecord, _: Any) -> tuple[Any, Any]:
    """The record is built again from its arguments; its id also names the number of the cycle."""
    given = _arguments(record)
    plan = cycle_replay.plan_again(**given)
    profile = profile_of(DeschedulerProfile.parse_stored(given["profile"]))
    figures = {one.name: int(one.value or 0) for one in record.inputs if one.source == "cluster"}
    trigger = CycleTrigger(str(next(one.value for one in record.inputs if one.name == "trigger")))
    arguments = record.replay.arguments
    made = cycle_record(profile, 0, trigger, plan, figures, arguments, record.decided_at)
    return _told(record), {**_told(made), "id": record.id}


def _of_step(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    """The step, the end and the sentence; that of a job without a place also counts the nodes."""
    given = _arguments(record)
    before = job_replay.job_of(given["job"])
    if record.replay.function == job_replay.START:
        after = start(before, given["now_s"])
    else:
        following = settle(before, job_replay.view_of(given["view"]), given["now_s"])
        place = before.step, before.start_attempt
        after = next((one for one in following if (one.step, one.start_attempt) != place), before)
    said = (record.result, record.reason, record.remaining_because)
    because = step_text(after)
    if after.reason is MigrationReason.UNSCHEDULABLE and after.outcome is not None:
        because = record.remaining_because
    reason = Reason.MIGRATION_STEPPED if after.outcome is None else _ENDS[after.phase]
    return said, (again, reason, because)


def _of_admission(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    """What the round came to for the job, and which filter holds it."""
    given = _arguments(record)
    plan = arbitrate_plainly(job_replay.snapshot_of_document(given["snapshot"]), given["now_s"])
    reason, held = Reason.MIGRATION_REFUSED, ""
    if given["job"] in plan.admitted:
        reason = Reason.MIGRATION_ADMITTED
    elif given["job"] in plan.holds:
        reason, held = Reason.MIGRATION_HELD, plan.holds[given["job"]].message
    is_held = record.reason is Reason.MIGRATION_HELD
    said = (record.result, record.reason, record.remaining_because if is_held else "")
    return said, (again, reason, held)


def _of_amount(record: DecisionRecord, again: Any) -> tuple[Any, Any]:
    """The size of a plan, or its gain in permille."""
    return record.result, again


REPEATS: Mapping[str, Callable[[DecisionRecord, Any], tuple[Any, Any]]] = MappingProxyType(
    {
        cycle_replay.FUNCTION: _of_cycle,
        plan_replay.FUNCTION: _of_amount,
        f"{plan_gain.__name__}:{plan_gain.replay_gain.__name__}": _of_amount,
        job_replay.STEP: _of_step,
        job_replay.START: _of_step,
        job_replay.ADMISSION: _of_admission,
    }
)
"""By the function that a record names, what it says and what the repetition gives."""


def _told(record: DecisionRecord) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(record.model_dump_json())
    whole.pop("trace_id", None)
    return whole


def _arguments(record: DecisionRecord) -> Any:
    return json.loads(json.dumps(record.replay.arguments))
