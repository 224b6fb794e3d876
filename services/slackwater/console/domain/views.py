"""The shapes of the read model. The API returns them unchanged, so each field is part of the API's contract.

CPU in milli-cores, memory in bytes, ratios 0..1, times aware UTC. None means unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slackwater.console.domain.candidates import CandidateView
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, DecisionRecord, Input
from slackwater.model.nodes import NodeFacts
from slackwater.model.quantities import Resources


@dataclass(frozen=True, slots=True)
class HostAppUsed:
    """A program of the machine outside of pods, measured separately with its own tier: the average of one report."""

    name: str
    tier: str
    usage: Resources


@dataclass(frozen=True, slots=True)
class UsagePoint:
    """One report of one node. `tiers` sums the averages of the pods of each tier; `system` is the usage of neither pods
    nor host applications, `host_apps` the usage of each host application.

    `batch_limit_milli` is the sum of the CPU limits of batch and free pods in force then, None if one had none.
    `throttled_pods` counts pods whose limit was below the one they had before any throttle.
    """

    event_id: str
    node: str
    sampled_at: datetime
    window_seconds: float
    trigger: str
    usage: Resources
    system: Resources | None
    tiers: Mapping[str, Resources]
    node_pressure: float | None
    prod_pressure: float | None
    batch_limit_milli: int | None
    throttled_pods: int
    pods: int
    host_apps: tuple[HostAppUsed, ...] = ()

    @property
    def beside_pods(self) -> Resources:
        """The usage of the system and host applications. A report in which a pod ended has no reading of the system:
        then what the node used and its tiers did not.
        """
        apps = sum((app.usage for app in self.host_apps), Resources())
        if self.system is not None:
            return self.system + apps
        rest = self.usage - sum(self.tiers.values(), Resources())
        return Resources(max(rest.cpu_milli, apps.cpu_milli, 0), max(rest.memory_bytes, apps.memory_bytes, 0))


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as its node last reported it: usage is the average of the report's window. `unread` is why the agent could
    not read its CPU limit; both limits are then those that it read last."""

    uid: str
    name: str
    namespace: str
    node: str
    workload: str
    tier: str
    qos: str
    priority: int
    request: Resources
    usage: Resources
    cpu_p95_milli: int
    cpu_pressure: float | None
    throttled_ratio: float | None
    cpu_limit_milli: int | None
    original_cpu_limit_milli: int | None
    throttled: bool
    started_at: datetime
    reported_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """What batch may use of one NUMA node."""

    name: str
    batch: Resources


@dataclass(frozen=True, slots=True)
class StatusOffer:
    """The batch amounts in the node's status where they differ from the offer: in normal CPUs (times `cpu_ratio`), less
    what other schedulers already hold; `before` is without that reduction.
    """

    batch: Resources
    before: Resources
    cpu_ratio: str


@dataclass(frozen=True, slots=True)
class OfferView:
    """The offer of a node from `offered_at` until its next offer. `degraded` is the reason of a degraded offer,
    `reason` the cause of the last change, `strategies` the sources of the merged strategy, the weakest first. `status`
    is None if the node's status equals the offer.

    Older offers lack mid, zones, reason, strategies and status.
    """

    event_id: str
    node: str
    offered_at: datetime
    generation: int
    batch: Resources
    degraded: str | None
    decision_ids: Mapping[str, str]
    mid: Resources = field(default_factory=Resources)
    zones: tuple[ZoneOffer, ...] = ()
    reason: str = ""
    strategies: tuple[str, ...] = ()
    status: StatusOffer | None = None


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """The accuracy of one resource's model in the node's pool (events.peak_predicted.Calibration): the shares (0..1) of
    24 h windows above the peak, accepted and measured, and the machine-days behind the measurement.
    """

    model: str
    version: str = ""
    stated_rate: float | None = None
    measured_rate: float | None = None
    machine_days: float = 0.0
    knob: float | None = None
    policy: str = ""
    generation: int = 0

    @property
    def is_too_low(self) -> bool:
        """Whether peaks were exceeded clearly more often than accepted, on sufficient data."""
        stated, measured = self.stated_rate, self.measured_rate
        if stated is None or measured is None:
            return False
        return measured > 1.5 * stated and self.machine_days * stated >= 3


@dataclass(frozen=True, slots=True)
class ForecastView:
    """The peaks expected of a node, as predicted at `predicted_at` after window `window_number`. Fields that an older
    prediction lacks have their default; `calibrations` are by resource.
    """

    event_id: str
    node: str
    predicted_at: datetime
    window_number: int
    window_seconds: int
    model: str
    samples: int
    cold_start_share: float
    node_peak: Resources
    system_peak: Resources
    tier_peaks: Mapping[str, Resources]
    prod_peak: Resources
    prod_reclaimable: Resources
    decision_id: str
    version: str = ""
    confidence: float = 0.0
    sample_age_seconds: float = 0.0
    cause: str = ""
    calibrations: Mapping[str, CalibrationView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowView:
    """A closed window of a node's usage: the input of predictions. Peaks are the p95 of the window, as folded."""

    event_id: str
    node: str
    number: int
    window_start: datetime
    window_seconds: int
    closed_at: datetime
    reports: int
    gaps: int
    pods: int
    node_p95: Resources
    tiers_p95: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition in Kubernetes' shape. `SchedulingClosed` is `True` while no new pod may be placed on the node, with
    the `rules` and the decision that closed it; where it is `False` they are those of the opening. A `True` is valid
    until `valid_until`: after that it reads `False`, reason `lapsed`. Running pods are not affected. `DuplicateAgent`
    is `True` while a second agent reports as the node and is refused. `ValuesLeftOut` is `True` while the agent caps or
    leaves out values of pods or of the node that no service would accept; `message` names them. Both have no decision.
    """

    type: str
    status: str
    reason: str
    message: str
    since: datetime
    told_at: datetime
    valid_until: datetime | None
    decision_id: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node: its facts, its liveness, its last report and its offer. Unreported parts are None; an unreported
    condition is absent, and a node without `SchedulingClosed` takes new pods.
    """

    name: str
    facts: NodeFacts | None = None
    described_at: datetime | None = None
    boot_epoch: str | None = None
    liveness: str | None = None
    liveness_changed_at: datetime | None = None
    usage: UsagePoint | None = None
    offer: OfferView | None = None
    conditions: tuple[NodeCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class EffectView:
    """The effect of a throttle or restore: the metric before and after the write, and the delays (seconds)."""

    decision_id: str
    node: str
    metric: str
    before: float
    after: float
    waterline: float
    relieved: bool
    actuated_at: datetime
    measured_at: datetime
    seconds_to_actuation: float
    seconds_to_measurement: float


@dataclass(frozen=True, slots=True)
class WrittenLimit:
    """A CPU limit as re-read from the kernel after it was written (None = unlimited)."""

    pod_uid: str
    cpu_limit_milli: int | None
    error: str | None
    decision_id: str | None


@dataclass(frozen=True, slots=True)
class ObservationView:
    """An agent's confirmation that it has converged to a generation of one writer's intent."""

    event_id: str
    node: str
    writer: str
    generation: int
    received_at: datetime
    observed_at: datetime
    limits: tuple[WrittenLimit, ...]
    foreign_writers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvictionView:
    """The outcome of one eviction."""

    id: str
    node: str
    pod_uid: str
    writer: str
    outcome: str
    detail: str
    completed_at: datetime
    decision_id: str


@dataclass(frozen=True, slots=True)
class IntentView:
    """The last document of one writer for a node. `limits` are desired milli-cores by pod; the lease is in seconds."""

    node: str
    writer: str
    generation: int
    declared_at: datetime
    lease_seconds: float
    limits: Mapping[str, int]
    evictions: int
    waterlines: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision as a list shows it; `relieved` and `seconds_to_actuation` are None until its effect is measured.

    Steps without a record of their own count in `step`, too.
    """

    id: str
    kind: DecisionKind
    node: str
    subject: str
    service: str
    rule: str
    mode: Mode | None
    reason: Reason
    decided_at: datetime
    result: int
    unit: str
    remaining: int
    remaining_because: str
    actions: tuple[Action, ...]
    relieved: bool | None = None
    seconds_to_actuation: float | None = None
    episode: str = ""
    """The first decision of its episode; empty where decisions have none."""
    step: int = 0
    """Its number within the episode, from 1."""


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One term of a decision. The bar of the row reaches from `running_before` to `running_after`."""

    name: str
    value: int
    running_before: int
    running_after: int
    note: str
    source: str | None = None
    observed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a number has its value at a time: the record in force then, its terms as a waterfall, its inputs.

    `adds_up` is computed from the rows shown, not taken from the record.
    """

    node: str
    subject: str
    at: datetime
    in_force_since: datetime
    result: int
    unit: str
    waterfall: tuple[WaterfallRow, ...]
    adds_up: bool
    inputs: tuple[Input, ...]
    record: DecisionRecord


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One link from cause to effect. `seconds` counts from the first step with a known time; None if unknown."""

    kind: str
    id: str
    at: datetime | None
    seconds: float | None
    summary: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """The causes and effects of a decision, in time order. `complete`: no further step is expected."""

    decision_id: str
    steps: tuple[ChainStep, ...]
    complete: bool
    trace_id: str | None = None
    """Finds the same chain in a trace store."""
    working: tuple[str, ...] = ()
    """The arithmetic of a throttle, restore or eviction, line by line, to be checked by hand."""
    unit: str = ""
    """Unit of what candidates release."""
    order: str = ""
    """The sort keys of the candidates; the first that differs decides."""
    candidates: tuple[CandidateView, ...] = ()
    """The candidates, in the order of the decision."""
    effect: EffectView | None = None
    relief: str = ""
    """The effect in a sentence: relief or not, how much, after how long."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """The number of decisions of a kind with a reason."""

    kind: DecisionKind
    reason: Reason
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of rows in the read model (older rows are pruned by retention)."""

    nodes: int
    reports: int
    predictions: int
    offers: int
    observations: int
    effects: int
    evictions: int
    decisions: tuple[ReasonCount, ...]


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Which decisions to list, newest first. `before` is the (time, id) of the last one of the previous page.

    `kinds` selects several kinds (None = any); `pod` is the name or the uid of a pod that an action is about, with
    `spared` also of one that was considered and spared. `carried_out`: whether it was to be executed (False: a preview,
    beyond the mode, or nothing to act on).
    """

    node: str | None = None
    kind: DecisionKind | None = None
    kinds: tuple[DecisionKind, ...] | None = None
    reason: Reason | None = None
    pod: str | None = None
    spared: bool = False
    pool: str | None = None
    carried_out: bool | None = None
    subject: str | None = None
    episode: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 50
