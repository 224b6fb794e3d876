"""The read model's shapes. The API answers with these as they are, so a field here is a promise to API users.

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
    """A program of the machine outside of pods, counted apart with a tier of its own: the average of one report."""

    name: str
    tier: str
    usage: Resources


@dataclass(frozen=True, slots=True)
class UsagePoint:
    """One report of one node. `tiers` sums the averages of the pods of each tier; `system` is what no pod and no host
    application used, `host_apps` what each of the latter did.

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
        """What the system and host applications used; nothing of what was not measured."""
        return sum((app.usage for app in self.host_apps), self.system or Resources())


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as its node last reported it: usage is the average of the report's window."""

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


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """What batch may use of one NUMA node."""

    name: str
    batch: Resources


@dataclass(frozen=True, slots=True)
class StatusOffer:
    """What the node's status says of batch where that is not the offer itself: in CPUs of the normal kind (times
    `cpu_ratio`), less what other schedulers hold of it already; `before` is without the latter."""

    batch: Resources
    before: Resources
    cpu_ratio: str


@dataclass(frozen=True, slots=True)
class OfferView:
    """What a node offered from `offered_at` until its next offer. `degraded` tells why it is cautious, `reason` why it
    changed just then, `strategies` what the strategy in force was merged from, the weakest first. `status` is None
    where the node's status says the offer itself.

    Offers from before mid, zones, reason, strategies and status were told have none of them.
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
    """How good the model of one resource has been in the node's pool (events.peak_predicted.Calibration): shares (0..1)
    of 24 h windows above the peak, as accepted and as measured, and the machine-days that the latter stands on."""

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
        """Whether peaks were broken clearly more often than accepted, with enough behind it to say so."""
        stated, measured = self.stated_rate, self.measured_rate
        if stated is None or measured is None:
            return False
        return measured > 1.5 * stated and self.machine_days * stated >= 3


@dataclass(frozen=True, slots=True)
class ForecastView:
    """The peaks expected of a node, as predicted at `predicted_at` after window `window_number`. What is not known of
    an older prediction has its default; `calibrations` are by resource."""

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
    """A closed window of a node's usage: what predictions are made of. Peaks are the p95 of the window, as folded."""

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
    """Kubernetes' shape. `SchedulingClosed` is `True` while nothing new is to be placed on the node, by `rules` and the
    decision that it names; where it is `False` they are those of the opening. A `True` counts until `valid_until` and
    no longer: after that it reads `False`, reason `lapsed`. Pods that run are not concerned.
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
    """A node: its facts, whether it is alive, its last report and its offer. Parts not heard of yet are None; a
    condition that was never told of is absent, and a node without any takes new pods."""

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
    """What a throttle or restore did: the metric before and after the write, and how long it took (seconds)."""

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
    """An agent's word that it has converged to a generation of one writer's intent."""

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
    """How one eviction ended."""

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
    """The last document of one writer for a node. `limits` are wanted milli-cores by pod; the lease is in seconds."""

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
    """A decision as a list shows it; `relieved` and `seconds_to_actuation` are None until its effect is measured."""

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
    """Why a number was what it was at a time: the record in force then, its terms as a waterfall, its inputs.

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
    """One link from cause to effect. `seconds` counts from the first step whose time is known; None if unknown."""

    kind: str
    id: str
    at: datetime | None
    seconds: float | None
    summary: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """What led to a decision and what came of it, in the order it happened. `complete`: nothing is still awaited."""

    decision_id: str
    steps: tuple[ChainStep, ...]
    complete: bool
    trace_id: str | None = None
    """To look the same chain up where traces are kept."""
    working: tuple[str, ...] = ()
    """The arithmetic of a throttle, restore or eviction, line by line, to be checked by hand."""
    unit: str = ""
    """Of what candidates release."""
    order: str = ""
    """What the keys of the candidates compare; the first that decides counts."""
    candidates: tuple[CandidateView, ...] = ()
    """Who was looked at, in the order of the decision."""
    effect: EffectView | None = None
    relief: str = ""
    """The effect in a sentence: relief or not, how much, after how long."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many decisions of a kind were taken for a reason."""

    kind: DecisionKind
    reason: Reason
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What the read model holds (older rows are pruned by retention)."""

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
    """Which decisions to list, newest first. `before` is the (time, id) of the last one already seen.

    `kinds` are several at once (None = any); `pod` is the name or the uid of a pod that an action is about, with
    `spared` also of one that was looked at and spared. `carried_out`: whether somebody was to act on it (False: a
    preview, beyond the mode, or nobody to act on).
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
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 50
