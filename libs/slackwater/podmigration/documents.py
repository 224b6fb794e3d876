"""PodMigrationJob and ArbitrationArgs as operators write them, and the limits and jobs they come to.

Fields and words are those of koordinator (scheduling/v1alpha1, MigrationControllerArgs), where it has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from slackwater.model.records import record
from slackwater.podmigration.arbitration_plugins import DEFAULT_FILTERS, DEFAULT_SORTS
from slackwater.podmigration.budgets import IntOrPercent, scaled
from slackwater.podmigration.jobs import DEFAULT_TTL_S, DEFAULT_WAIT_S, MigrationMode
from slackwater.podmigration.limits import ArbitrationArgs, MigrationLimits, SkipGate
from slackwater.podmigration.rate import LimiterScope, ObjectLimiter
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Part, Resource

MOST_SECONDS: Final = 86_400.0
MOST_PLUGINS: Final = 32
_UNIT_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")


def duration_seconds(text: str) -> float:
    """Returns the seconds of a duration such as `5m` or `1h30m`. Raises ValueError above a day."""
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > MOST_SECONDS:
        raise ValueError(f"{text}: a duration is at most 24h")
    return seconds


def _checked_duration(text: str) -> str:
    duration_seconds(text)
    return text


def _checked_amount(value: IntOrPercent) -> IntOrPercent:
    scaled(value, 1, round_up=False)
    return value


Duration = Annotated[
    str,
    StringConstraints(max_length=32, pattern=r"^([0-9]+(\.[0-9]+)?(h|ms|m|s))+$"),
    AfterValidator(_checked_duration),
]
"""Hours, minutes and seconds, such as `5m` or `1h30m`; at most a day."""
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Share = Annotated[int | str, AfterValidator(_checked_amount)]


def _share_rule(field: str) -> CelRule:
    """The same for the API server: a whole number from 0, or a percent."""
    value = f"self.{field}"
    whole = f"double({value}) >= 0.0 && double({value}) == double(int({value}))"
    return CelRule(
        f"!has({value}) || (type({value}) == string ? {value}.matches('^[0-9]+%$') : {whole})",
        "must be a whole number from 0 or a percent like 10%",
        field,
        by_admission=True,
    )


PluginName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._-]+$")]
"""The name of an entry point."""
Text253 = Annotated[str, StringConstraints(max_length=253, pattern=r"^[^\x00-\x1f]*$")]


class PodReference(Part):
    """The pod that is to move: by UID, or by namespace and name."""

    namespace: Text253 = Field("", description="of the pod")
    name: Text253 = Field("", description="of the pod")
    uid: Text253 = Field("", description="of the pod; goes before its name")


class PodMigrationJobSpec(Part):
    """What is to move, and how."""

    pod_ref: PodReference = Field(description="pod that is to move, by uid, or by namespace and name")
    mode: Literal["ReservationFirst", "EvictDirectly"] = Field(
        "ReservationFirst", description="ReservationFirst: room elsewhere is reserved before the pod is evicted"
    )
    ttl: Duration = Field("5m", description="from admission to the end; 0s: no limit")
    wait_limit: Duration = Field("30m", description="from submission to admission; 0s: no limit")
    paused: bool = Field(False, description="no new step begins; limits of time go on")
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = Field(
        0, description="of the migration; of equal pods the higher goes first"
    )
    priority_class_name: Text253 = Field("", description="name that the priority was made of; shown only")
    dry_run: bool = Field(False, description="it is admitted and ends, and nothing is reserved or evicted")
    target_node: Text253 = Field("", description="node that is tried first; empty: the one with the most headroom")
    reason: Annotated[str, StringConstraints(max_length=1024)] = Field("", description="why the pod is to move")


class MigrationConditionStatus(Part):
    """One condition of a job."""

    type: str = Field(description="of the condition")
    status: Literal["True", "False"] = Field(description="whether it holds")
    reason: str = Field("", description="in one word")
    message: str = Field("", description="in words")
    since: str = Field("", description="when it began to hold")


class JobHoldStatus(Part):
    """What holds a waiting job: `count` of `limit` are in use at `scope`."""

    filter: str = Field(description="limit that holds it")
    scope: str = Field("", description="where it counts: a node, a namespace, a workload")
    count: int = Field(description="moves there in progress")
    limit: int = Field(description="how many are allowed")
    since: str = Field("", description="when it began to wait")


class PodMigrationJobStatus(Part):
    """Set by the server. `node` is where the pod goes, `outcome` what a job that ended left behind. `downtimeSeconds`:
    from the end of the old pod to the new one being ready, as the server received both."""

    phase: str = Field(description="Pending, Running, Succeeded, Failed or Aborted")
    step: str = Field(description="what is done now")
    reason: str = Field("", description="of the phase, in one word")
    message: str = Field("", description="the same in words")
    from_node: str = Field("", description="node of the pod at the beginning")
    node: str = Field("", description="where the pod goes")
    reservation: str = Field("", description="Reservation that keeps room for it")
    replacement: str = Field("", description="pod that came in its place")
    outcome: str = Field("", description="what a job that ended left behind")
    pod: str = Field("", description="namespace and name of the pod")
    workload: str = Field("", description="key of the pod's controller")
    source: str = Field("", description="what asked for the move")
    held_by: JobHoldStatus | None = Field(None, description="limit for which it waits; absent: none")
    submitted_at: str = Field("", description="when it was asked for")
    ended_at: str = Field("", description="when it ended")
    downtime_seconds: float | None = Field(None, description="from the end of the old pod to the new one being ready")
    conditions: tuple[MigrationConditionStatus, ...] = Field((), description="what holds of the job")


class PodMigrationJob(Resource):
    """Moves one pod to another node. Deleting it aborts the move."""

    kind: Literal["PodMigrationJob"] = "PodMigrationJob"
    spec: PodMigrationJobSpec
    status: PodMigrationJobStatus | None = Field(None, description="Set by the server, ignored in what is applied.")


class LimiterSpec(Part):
    """At most `maxMigrating` moves per duration, `burst` at once."""

    RULES: ClassVar[tuple[CelRule, ...]] = (_share_rule("maxMigrating"),)

    duration: Duration = Field("5m", description="0s switches it off")
    max_migrating: Share | None = Field(None, description="count or percent; none: the budget of the workload")
    burst: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="moves at once")


class ArbitrationArgsSpec(Part):
    """How many pods may be moved at a time, and which first. Changes hold from the next round on."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        _share_rule("maxMigratingPerWorkload"),
        _share_rule("maxUnavailablePerWorkload"),
    )

    enabled: bool = Field(True, description="false: jobs pass in the order of submission; limits hold all the same")
    interval: Duration = Field("60s", description="between two rounds")
    process_queue_qps: Annotated[float, Field(gt=0, le=1000)] = Field(
        3.0, alias="processQueueQPS", description="admitted jobs that start per second"
    )
    job_select_ratio: Annotated[float, Field(gt=0, le=1000)] = Field(
        1.2, description="of the jobs that start in an interval, how many a round admits"
    )
    max_migrating_globally: Count | None = Field(None, description="0 or none: no limit")
    max_migrating_per_node: Count | None = Field(2, description="0 or none: no limit")
    max_migrating_per_namespace: Count | None = Field(None, description="0 or none: no limit")
    max_migrating_per_workload: Share | None = Field(None, description="count or percent; none: by its size")
    max_unavailable_per_workload: Share | None = Field(None, description="count or percent; none: by its size")
    skip_check_expected_replicas: bool = Field(
        False, description="whether a workload that cannot spare a replica may be moved"
    )
    skip_eviction_gates: Annotated[tuple[SkipGate, ...], Field(max_length=32)] = Field(
        (), description="checks that are switched off"
    )
    sort_fns: Annotated[tuple[PluginName, ...], Field(max_length=MOST_PLUGINS)] = Field(
        DEFAULT_SORTS, description="SortFn plugins: of two jobs the first that tells them apart decides"
    )
    group_filters: Annotated[tuple[PluginName, ...], Field(max_length=MOST_PLUGINS)] = Field(
        DEFAULT_FILTERS, description="GroupFilterFn plugins: what is not listed is not checked"
    )
    workload_limiter: LimiterSpec = Field(default_factory=LimiterSpec, description="moves of one workload in a window")
    namespace_limiter: LimiterSpec | None = Field(None, description="moves of one namespace in a window")


class ArbitrationArgsDocument(Resource):
    """The limits of migrations and the order in which waiting jobs start; one document, `default`."""

    kind: Literal["ArbitrationArgs"] = "ArbitrationArgs"
    spec: ArbitrationArgsSpec = Field(default_factory=ArbitrationArgsSpec)


@record(frozen=True, slots=True)
class JobRequest:
    """What a job asks for, wherever it comes from. Times in seconds since the epoch."""

    name: str
    generation: int = 0
    """Of its document; 0: it has none."""
    pod_uid: str = ""
    pod_namespace: str = ""
    pod_name: str = ""
    mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    ttl_s: float = DEFAULT_TTL_S
    wait_s: float = DEFAULT_WAIT_S
    paused: bool = False
    priority: int = 0
    dry_run: bool = False
    target_node: str = ""
    reason: str = ""
    source: str = ""
    """Empty: an operator. Else the service that proposed it."""
    gain: str = ""
    """What the proposal expects of it."""
    caused_by: str = ""
    """Id of the decision that proposed it."""


@record(frozen=True, slots=True)
class ArbitrationRules:
    """What an ArbitrationArgs document comes to."""

    args: ArbitrationArgs = ArbitrationArgs()
    limits: MigrationLimits = MigrationLimits()
    generation: int = 0
    sort_fns: Sequence[str] = DEFAULT_SORTS
    group_filters: Sequence[str] = DEFAULT_FILTERS


def request_of(document: PodMigrationJob) -> JobRequest:
    """Returns what a document asks for."""
    spec = document.spec
    return JobRequest(
        name=document.name,
        generation=document.metadata.generation,
        pod_uid=spec.pod_ref.uid,
        pod_namespace=spec.pod_ref.namespace,
        pod_name=spec.pod_ref.name,
        mode=MigrationMode(spec.mode),
        ttl_s=duration_seconds(spec.ttl),
        wait_s=duration_seconds(spec.wait_limit),
        paused=spec.paused,
        priority=spec.priority,
        dry_run=spec.dry_run,
        target_node=spec.target_node,
        reason=spec.reason,
    )


def document_of(request: JobRequest) -> PodMigrationJob:
    """Returns the document of a job that no operator has written."""
    spec = PodMigrationJobSpec(
        pod_ref=PodReference(namespace=request.pod_namespace, name=request.pod_name, uid=request.pod_uid),
        mode=request.mode.value,
        ttl=f"{request.ttl_s:.0f}s",
        wait_limit=f"{request.wait_s:.0f}s",
        paused=request.paused,
        priority=request.priority,
        dry_run=request.dry_run,
        target_node=request.target_node,
        reason=request.reason,
    )
    metadata = {"name": request.name, "changedBy": request.source}
    return PodMigrationJob.parse({"metadata": metadata, "spec": spec.document()})


def rules_of(document: ArbitrationArgsDocument) -> ArbitrationRules:
    """Returns the limits and arguments of a document."""
    spec = document.spec
    limiters = {LimiterScope.WORKLOAD: spec.workload_limiter, LimiterScope.NAMESPACE: spec.namespace_limiter}
    return ArbitrationRules(
        args=ArbitrationArgs(
            enabled=spec.enabled,
            interval_s=duration_seconds(spec.interval),
            process_queue_qps=spec.process_queue_qps,
            job_select_ratio=spec.job_select_ratio,
        ),
        limits=MigrationLimits(
            max_migrating_globally=spec.max_migrating_globally,
            max_migrating_per_node=spec.max_migrating_per_node,
            max_migrating_per_namespace=spec.max_migrating_per_namespace,
            max_migrating_per_workload=spec.max_migrating_per_workload,
            max_unavailable_per_workload=spec.max_unavailable_per_workload,
            skip_check_expected_replicas=spec.skip_check_expected_replicas,
            skip_gates=frozenset(spec.skip_eviction_gates),
            object_limiters={
                scope: ObjectLimiter(duration_seconds(limiter.duration), limiter.max_migrating, limiter.burst)
                for scope, limiter in limiters.items()
                if limiter is not None
            },
        ),
        generation=document.metadata.generation,
        sort_fns=spec.sort_fns,
        group_filters=spec.group_filters,
    )
