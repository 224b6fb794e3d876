"""Plans what follows from the custom resources of a cluster: which documents to store and to delete, and their status.
Pure.

The ledger says what the services answered to which generation of a resource. What is in the ledger and no longer in the
cluster was deleted, also while this service was away. Deletions go first, because a value that must be unique is free
only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from slackwater.model.bounds import Count, Moment, Name, Text
from slackwater.model.records import record

FOLLOWED: Final = "Followed"
"""The condition of every kind: whether the generation is in force."""
LONGEST_MESSAGE: Final = 2_000


class FollowStatus(StrEnum):
    """The status of the condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@record(frozen=True, slots=True)
class FollowVerdict:
    """What is to say about one generation of a resource."""

    status: FollowStatus
    reason: Name
    message: Text


@record(frozen=True, slots=True)
class LedgerEntry:
    """The last answer about a resource: `generation` is the one that was answered, `in_force` the last that was stored
    (0: none), `stored` its generation in the service. `key` is `PLURAL/NAME`."""

    key: Name
    uid: Name
    generation: Count
    in_force: Count
    stored: Count
    verdict: FollowVerdict


@record(frozen=True, slots=True)
class DocumentFacts:
    """One document: its resource in the cluster (uid empty: there is none) and its ledger entry.

    `stored` is its generation in the service as read lately (None: not read, 0: it is not stored). After a failure
    there is no try before `waits_until`.
    """

    key: Name
    uid: Name
    generation: Count
    entry: LedgerEntry | None
    stored: Count | None = None
    waits_until: Moment | None = None


@record(frozen=True, slots=True)
class DocumentPlan:
    """Keys to delete, then keys to store; when to plan again without news."""

    deletions: tuple[str, ...]
    changes: tuple[str, ...]
    again_at: datetime | None


def plan_documents(documents: Iterable[DocumentFacts], now: datetime) -> DocumentPlan:
    """What has to be done now. A refused document is tried again when its pause has passed, because what it needs or
    conflicts with may have changed."""
    deletions, changes, again = list[str](), list[str](), list[datetime]()
    for facts in sorted(documents, key=lambda facts: facts.key):
        due = deletions if not facts.uid else changes if _is_due(facts) else None
        if due is None or (due is deletions and facts.entry is None):
            continue
        if facts.waits_until is not None and now < facts.waits_until:
            again.append(facts.waits_until)
        else:
            due.append(facts.key)
    return DocumentPlan(tuple(deletions), tuple(changes), min(again, default=None))


def _is_due(facts: DocumentFacts) -> bool:
    """Whether the resource has a generation without an answer, was refused, or is stored otherwise than answered."""
    entry = facts.entry
    if entry is None or (entry.uid, entry.generation) != (facts.uid, facts.generation):
        return True
    if entry.verdict.status is not FollowStatus.TRUE:
        return True
    return facts.stored is not None and facts.stored != entry.stored


def status_of(
    generation: int,
    in_force: int,
    verdict: FollowVerdict,
    own: Mapping[str, Any],
    present: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """The status of a resource: the fields of its kind, the generation in force, and the condition. The time of the
    condition stays as long as its status does."""
    before = condition_of(present)
    since = before.get("lastTransitionTime") if before.get("status") == verdict.status.value else None
    condition = {
        "type": FOLLOWED,
        "status": verdict.status.value,
        "observedGeneration": generation,
        "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": verdict.reason,
        "message": verdict.message[:LONGEST_MESSAGE],
    }
    in_force_field = {"observedGeneration": in_force} if in_force else {}
    return {**own, **in_force_field, "conditions": [condition]}


def condition_of(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition of Slackwater in a status; empty if there is none."""
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == FOLLOWED), {})


def is_written(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a resource has this status already, beside the conditions of others."""
    own = {name: value for name, value in present.items() if name != "conditions"}
    rest = {name: value for name, value in wanted.items() if name != "conditions"}
    return own == rest and condition_of(present) == condition_of(wanted)
