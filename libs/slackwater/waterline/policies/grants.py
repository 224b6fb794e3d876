"""Autonomy: a pool's highest mode, and the guards that make it step back from evicting."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from slackwater.decisions.reasons import Mode
from slackwater.resources.metadata import Part, Resource
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.policies.autonomy import AutonomyPolicy

Pool = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]
_DEFAULTS: Final = AutonomyPolicy()
_LIMITS: Final = ActionLimits()


class AutonomySpec(Part):
    """`nodePool` defaults to the document's name. Above `evictionsPerHour` in the pool, or after `reliefsMissed`
    evictions without relief, it only throttles for `holdSeconds`. `nodeEvictionsPerCycle` and `nodeEvictionsPerHour`
    limit evictions of one node; `blanketThrottles` and `blanketEvictions`, pods of one node and cycle for metrics that
    cannot be quantified."""

    node_pool: Pool | None = Field(None, description="pool that it is for; absent: the one of the document's name")
    mode: Literal["observe", "throttle", "evict"] = Field(
        description="observe: decisions are only recorded; throttle: limits are set; evict: pods may be ended too"
    )
    evictions_per_hour: Annotated[int, Field(ge=0, le=100_000)] = Field(
        _DEFAULTS.evictions_per_hour,
        description="above so many evictions in the pool it only throttles for holdSeconds",
    )
    reliefs_missed: Annotated[int, Field(ge=1, le=1000)] = Field(
        _DEFAULTS.reliefs_missed,
        description="after so many evictions in a row without relief it only throttles for holdSeconds",
    )
    node_evictions_per_cycle: Annotated[int, Field(ge=1, le=1000)] = Field(
        _LIMITS.evictions_per_cycle or 1, description="most evictions of one node in a cycle"
    )
    node_evictions_per_hour: Annotated[int, Field(ge=1, le=100_000)] = Field(
        _LIMITS.evictions_per_hour or 1, description="most evictions of one node in an hour"
    )
    blanket_throttles: Annotated[int, Field(ge=0, le=100)] = Field(
        _LIMITS.blanket_throttles,
        description="most pods of one node and cycle that are throttled for a metric that cannot be quantified",
    )
    blanket_evictions: Annotated[int, Field(ge=0, le=100)] = Field(
        _LIMITS.blanket_evictions,
        description="most pods of one node and cycle that are evicted for a metric that cannot be quantified",
    )
    hold_seconds: Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False)] = Field(
        _DEFAULTS.hold_seconds, description="how long it only throttles after it stepped back from evict"
    )


class Autonomy(Resource):
    """The document."""

    kind: Literal["Autonomy"] = "Autonomy"
    spec: AutonomySpec

    @property
    def pool(self) -> str:
        return self.spec.node_pool or self.metadata.name

    def limits(self) -> ActionLimits:
        """Returns the limits of one node."""
        spec = self.spec
        return ActionLimits(
            spec.node_evictions_per_cycle,
            spec.node_evictions_per_hour,
            blanket_throttles=spec.blanket_throttles,
            blanket_evictions=spec.blanket_evictions,
        )

    def policy(self) -> AutonomyPolicy:
        return AutonomyPolicy(
            Mode(self.spec.mode),
            self.metadata.generation,
            self.spec.evictions_per_hour,
            self.spec.reliefs_missed,
            self.spec.hold_seconds,
        )
