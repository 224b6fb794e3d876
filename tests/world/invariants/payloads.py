"""Events out of the steps of the record."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from tests.world.attacks import is_forged
from tests.world.trace import Step

from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.codec.body import decode_body
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Payload
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import Roster

P = TypeVar("P", bound=Payload)
_ROSTERS: dict[str, Roster] = {}
_RECORDED = tuple(f"sw.v1.{payload.TYPE}." for payload in (DecisionRecorded, AgentDecisionRecorded))


def payload_of(step: Step, payload: type[P]) -> P | None:
    """The payload of a stored message, if it is of this type. It is decoded once for all invariants, and read only."""
    if not step.subject.startswith(f"sw.v1.{payload.TYPE}.") or is_forged(step.detail.get("id")):
        return None
    decoded = step.decoded
    if not decoded:
        decoded.append(decode_body(payload, step.value.body, find=_roster))
    found: P = decoded[0]
    return found


def note_roster(step: Step) -> None:
    """Keep the roster of a stored message: the invariants join reports with it. The digest identifies its content, so
    that histories may share them."""
    rostered = payload_of(step, PodsRostered)
    if rostered is not None:
        _ROSTERS[rostered.roster.digest] = rostered.roster


def _roster(node: str, digest: str) -> Roster | None:
    return _ROSTERS.get(digest)


def raw_record_of(step: Step) -> dict[str, Any] | None:
    """The decision record in a stored message as JSON, read only: most invariants ask for a few of its fields, and to
    validate the whole costs a millisecond."""
    if not step.subject.startswith(_RECORDED) or is_forged(step.detail.get("id")):
        return None
    if not step.raw:
        step.raw.append(msgspec.json.decode(step.value.body)["record"])
    record: dict[str, Any] = step.raw[0]
    return record
