"""A PodMigrationJob: what was asked for, where the move is, and how it ended.

Names of modes, phases, conditions and reasons are those of koordinator (scheduling/v1alpha1), where it has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final
from zlib import crc32

from slackwater.model.records import record

DEFAULT_TTL_S, DEFAULT_WAIT_S, CONFIRM_S = 300.0, 1800.0, 60.0
START_S = 120.0
"""Within which a declared start may begin, at least: the time to live may be over when the old pod is gone."""
UNANSWERED_S = 600.0
"""After its deadline a start that nothing is heard of is given up: a node that comes back before says that it did not
begin, and the workload can return."""
MOST_READY_S = 3_700.0
"""A start that began is answered by then: a workload file gives at most an hour to be ready, and then its grace."""
MOST_NAME: Final = 63
_OTHER: Final = re.compile(r"[^a-z0-9-]+")


class MigrationMode(StrEnum):
    """Whether room elsewhere is reserved before the pod is evicted."""

    RESERVATION_FIRST = "ReservationFirst"
    EVICT_DIRECTLY = "EvictDirectly"


class MigrationPhase(StrEnum):
    """The phase that users see. The last three are final."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


class MigrationStep(StrEnum):
    """Where the move is; never goes back."""

    WAITING = "waiting"
    """For arbitration."""
    ADMITTED = "admitted"
    """In the rate-limited queue."""
    RESERVING = "reserving"
    EVICTING = "evicting"
    """An eviction is declared, until its deadline."""
    WITHDRAWING = "withdrawing"
    """The declared eviction is withdrawn; what became of the pod is not confirmed yet."""
    REPLACING = "replacing"
    """The old pod is gone, the new one is not ready."""
    ENDED = "ended"


class MigrationReason(StrEnum):
    """Why a job is where it is."""

    NONE = ""
    COMPLETE = "Complete"
    DRY_RUN = "DryRun"
    ABORTED = "Aborted"
    TIMEOUT = "Timeout"
    INVALID_POD_REF = "InvalidPodRef"
    MISSING_POD = "MissingPod"
    FORBIDDEN = "ForbiddenMigratePod"
    MISSING_RESERVATION = "MissingReservation"
    RESERVATION_EXPIRED = "ReservationExpired"
    UNSCHEDULABLE = "Unschedulable"
    EVICTING = "Evicting"
    FAILED_EVICT = "FailedEvict"
    EVICT_COMPLETE = "EvictComplete"
    WAIT_FOR_BIND = "WaitForPodBindReservation"
    WAIT_FOR_READY = "WaitForBoundPodReady"
    FAILED_START = "FailedStart"


class MoveOutcome(StrEnum):
    """What a job that ended left behind."""

    MOVED = "moved"
    EVICTED = "evicted"
    """EvictDirectly: the old pod is gone, its owner replaces it."""
    OLD_POD_RUNS = "old_pod_runs"
    POD_VANISHED = "pod_vanished"
    """The pod ended by itself, before the move evicted it."""
    REPLACEMENT_PENDING = "replacement_pending"
    """Degraded: the old pod was evicted, and the new one was not ready when the job ended."""
    RETURNED = "returned"
    """Degraded: the start on the other node failed, and the workload was started again where it came from."""
    UNCONFIRMED = "unconfirmed"
    """Degraded: the node did not answer whether it evicted the pod. No replacement was started."""


DEGRADED = frozenset({MoveOutcome.REPLACEMENT_PENDING, MoveOutcome.RETURNED, MoveOutcome.UNCONFIRMED})


class MigrationCondition(StrEnum):
    """Condition types of a job."""

    ADMITTED = "Admitted"
    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    EVICTION = "Eviction"
    POD_BOUND_RESERVATION = "PodBoundReservation"
    BOUND_POD_READY = "BoundPodReady"


@record(frozen=True, slots=True)
class ConditionState:
    """Of a condition: its status, reason and since when."""

    status: bool
    reason: MigrationReason
    since_s: float


@record(frozen=True, slots=True)
class MigrationJob:
    """A job with its state. Times in seconds since the epoch."""

    id: str
    pod: str
    """UID; empty makes the job invalid."""
    node: str
    submitted_s: float
    mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    ttl_s: float = DEFAULT_TTL_S
    """From admission to the end. 0: no limit."""
    wait_s: float = DEFAULT_WAIT_S
    """From submission to admission. 0: no limit."""
    paused: bool = False
    """No new step begins; limits of time go on."""
    dry_run: bool = False
    starts_replacement: bool = False
    """No owner replaces the pod: the move starts it on the reserved node, once the old one is gone."""
    abort_requested: bool = False
    step: MigrationStep = MigrationStep.WAITING
    phase: MigrationPhase = MigrationPhase.PENDING
    reason: MigrationReason = MigrationReason.NONE
    message: str = ""
    outcome: MoveOutcome | None = None
    """Set where the job has ended."""
    admitted_s: float | None = None
    target_node: str = ""
    """Of the reservation that was available when the eviction was declared."""
    evict_by_s: float | None = None
    """Until when a declared eviction may begin; the deadline, or a while where the job has none."""
    start_attempt: int = 0
    """Which start of the replacement is declared: 1 on the target, 2 back on the old node. 0: none yet."""
    start_node: str = ""
    start_by_s: float | None = None
    """Until when the declared start may begin."""
    reservation_seen: bool = False
    replacement: str = ""
    conditions: Mapping[MigrationCondition, ConditionState] = field(default_factory=dict)

    @property
    def deadline_s(self) -> float | None:
        """When an admitted job times out. None: never, or not admitted."""
        return None if self.admitted_s is None or self.ttl_s <= 0 else self.admitted_s + self.ttl_s


def job_name(proposal: str) -> str:
    """Returns the name of the job of a proposal: what names of documents allow, and another one for each id."""
    name = f"move-{_OTHER.sub('-', proposal.lower()).strip('-')}"
    if name == f"move-{proposal}" and len(name) <= MOST_NAME:
        return name
    return f"{name[: MOST_NAME - 9].rstrip('-')}-{crc32(proposal.encode()):08x}"
