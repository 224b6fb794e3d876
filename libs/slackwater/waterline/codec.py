"""Snapshots, states, policies and plans as JSON and back, without loss. Raises pydantic.ValidationError on nonsense."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.waterline.plan import Plan
from slackwater.waterline.policy import WaterlinePolicy
from slackwater.waterline.snapshot import Snapshot
from slackwater.waterline.state import GuardState

_SNAPSHOT: Final = TypeAdapter(Snapshot)
_STATE: Final = TypeAdapter(GuardState)
_POLICY: Final = TypeAdapter(WaterlinePolicy)
_TIME: Final = TypeAdapter(datetime)
_PLAN: Final = TypeAdapter(Plan)


def to_json(value: Snapshot | GuardState | WaterlinePolicy | Plan | datetime) -> Any:
    """JSON of any of the planner's values."""
    match value:
        case Snapshot():
            return _SNAPSHOT.dump_python(value, mode="json")
        case GuardState():
            return _STATE.dump_python(value, mode="json")
        case WaterlinePolicy():
            return _POLICY.dump_python(value, mode="json")
        case Plan():
            return _PLAN.dump_python(value, mode="json")
        case datetime():
            return _TIME.dump_python(value, mode="json")


def snapshot_of(document: Any) -> Snapshot:
    return _SNAPSHOT.validate_python(document)


def state_of(document: Any) -> GuardState:
    return _STATE.validate_python(document)


def policy_of(document: Any) -> WaterlinePolicy:
    return _POLICY.validate_python(document)


def time_of(text: str) -> datetime:
    return _TIME.validate_python(text)
