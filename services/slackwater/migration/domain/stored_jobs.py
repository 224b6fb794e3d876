"""Jobs, reservations and the state of arbitration as they are kept. Times in seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from slackwater.model.placement_rules import PlacementRules
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationStep
from slackwater.podmigration.limits import JobHold
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, MigrationQueue
from slackwater.reservations.reservation import Reservation

ARBITRATION: Final = "migration"
"""Key of the one row of arbitration, and of the partition whose owner decides."""


@record(frozen=True, slots=True)
class MovedPod:
    """The pod of a job as it was seen when the job was taken in."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    workload: str = ""
    tier: Tier = Tier.PROD
    qos: QoSClass = QoSClass.LS
    priority: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    peak: Mapping[str, int] | None = None
    reported_s: float = 0.0
    """When the report was sampled that showed it. Only a later one shows that it is gone."""
    digest: str = ""
    """Of the workload file that it was started from; empty: another owner replaces it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which disruption budgets select it, also once it is gone."""
    rules: PlacementRules | None = None
    """Where it may be, as far as it is reported: its replacement as well."""
    unready: bool = False
    """It was not ready when its job was admitted: no disruption budget counts it as healthy."""
    failed: bool = False
    """It has ended with a failure: nothing of its workload becomes unavailable when it goes."""


@record(frozen=True, slots=True)
class EvictionGrant:
    """The grant of the pool's Autonomy to evict the pod of one job."""

    request: str = ""
    asked_s: float = 0.0
    until_s: float | None = None
    """Until when it may be used; None: not granted."""
    because: str = ""
    again_s: float | None = None
    since_s: float | None = None
    """When this request was made first; it is repeated under its id. None: none was made."""

    @property
    def is_unanswered(self) -> bool:
        """Whether a request was made and no answer to it was read."""
        return bool(self.request) and self.until_s is None and not self.because

    def is_usable(self, now_s: float) -> bool:
        """Whether an eviction may be declared now."""
        return self.until_s is not None and now_s < self.until_s


@record(frozen=True, slots=True)
class StoredJob:
    """A job with its pod and what was done for it. `job.id` is never used twice; `request.name` is what users see."""

    job: MigrationJob
    request: JobRequest
    pod: MovedPod
    hold: JobHold | None = None
    attempt: int = 1
    """Of its eviction: the agent carries out each id once."""
    refused_s: float | None = None
    """When the last attempt was refused."""
    grant: EvictionGrant = EvictionGrant()
    evicting_s: float | None = None
    """When the eviction of the present attempt was declared first: its replacement starts later."""
    withdrawn_generation: int = 0
    """Of the document that withdrew the eviction."""
    decision: str = ""
    """Id of the record of its last step."""
    ended_s: float | None = None
    gone_s: float | None = None
    """When the end of the old pod was received, by the server's clock."""
    ready_s: float | None = None
    """When it was received that the new pod is ready, by the server's clock."""
    version: int = 0
    """Generation of the ledger that changed it last; the store sets it."""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def downtime_s(self) -> float | None:
        """From the end of the old pod to the new one being ready; 0 where that was ready first, None before."""
        return None if self.gone_s is None or self.ready_s is None else max(self.ready_s - self.gone_s, 0.0)

    @property
    def is_live(self) -> bool:
        return self.job.step is not MigrationStep.ENDED

    @property
    def eviction_id(self) -> str:
        """Of the present attempt. A single subject token."""
        return f"{self.job.id}-{self.attempt}"

    @property
    def start_id(self) -> str:
        """Of the present start of the replacement: the agent begins each id once."""
        return f"{self.job.id}-start-{self.job.start_attempt}"

    @property
    def eviction_key(self) -> str:
        """Of the answer that counts to the present attempt: that of the node that was asked."""
        return answer_key(self.job.node, self.eviction_id)

    @property
    def start_key(self) -> str:
        """Of the answer that counts to the present start."""
        return answer_key(self.job.start_node, self.start_id)


@record(frozen=True, slots=True)
class StoredReservation:
    """A reservation. `job`: the move that it is kept for; empty: a document asks for it."""

    reservation: Reservation
    job: str = ""
    generation: int = 0
    """Of its document."""
    prefers: str = ""
    """Node that is tried first."""
    ended_s: float | None = None

    @property
    def name(self) -> str:
        return self.reservation.name


@record(frozen=True, slots=True)
class NodeDocument:
    """The newest intent document of one node: its generation, and the evictions and starts in it."""

    generation: int
    evictions: tuple[str, ...]
    declared_s: float
    starts: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class TakenPod:
    """A pod that a move has ended, for as long as a disruption budget may count it as healthy still."""

    uid: str
    namespace: str
    labels: Mapping[str, str]
    gone_s: float
    """When its end was received, by the server's clock."""


@record(frozen=True, slots=True)
class ArbitrationState:
    """The one row on every path: its generation rises with every change of any job."""

    generation: int = 0
    round_s: float | None = None
    """When the last round began."""
    queue: MigrationQueue = MigrationQueue()
    buckets: Mapping[tuple[LimiterScope, str], LimiterBucket] = field(default_factory=dict)
    documents: Mapping[str, NodeDocument] = field(default_factory=dict)
    """By node, until the agent has answered that it wants nothing there."""
    taken: tuple[TakenPod, ...] = ()


def answer_key(node: str, identity: str) -> str:
    """Returns the key of what the agent of a node answers to an eviction or a start. Ids can be guessed, and an agent
    answers in the name of its own node only: what another one says has another key."""
    return f"{node}/{identity}"


@record(frozen=True, slots=True)
class EvictionAnswer:
    """What the agent of a node answered to an eviction."""

    node: str
    id: str
    outcome: str
    detail: str
    completed_s: float
    """By the clock of the node."""
    received_s: float
    """By the clock of the server."""

    @property
    def key(self) -> str:
        return answer_key(self.node, self.id)


@record(frozen=True, slots=True)
class GrantAnswer:
    """What ensurance answered to a request for a grant."""

    id: str
    granted: tuple[str, ...]
    because: str
    again_s: float | None
    until_s: float

    @property
    def key(self) -> str:
        return self.id


@record(frozen=True, slots=True)
class MigrationLedger:
    """All that is kept: one snapshot, that a round changes as a whole."""

    state: ArbitrationState = ArbitrationState()
    jobs: Mapping[str, StoredJob] = field(default_factory=dict)
    """By name."""
    reservations: Mapping[str, StoredReservation] = field(default_factory=dict)
    """By name."""

    def live(self) -> Sequence[StoredJob]:
        """Returns the jobs that have not ended, in the order of submission."""
        found = [stored for stored in self.jobs.values() if stored.is_live]
        return sorted(found, key=lambda stored: (stored.job.submitted_s, stored.name))
