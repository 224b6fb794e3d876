"""AvoidanceAction: throttle CPU or memory, evict, or only cordon the node for new pods."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from slackwater.resources.cel import CelRule, number_of
from slackwater.resources.metadata import Part, Resource
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.policies.memory import MemoryThrottleSpec
from slackwater.waterline.policies.quantity import Written, in_unit_of, text_of
from slackwater.waterline.policies.values import PolicyAction
from slackwater.waterline.registry.metric import Dimension

Share = Annotated[Decimal, Field(ge=0, le=1, allow_inf_nan=False)]
Step = Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]


class CpuThrottleSpec(Part):
    """See slackwater.waterline.actuation.cpu_quota; ratios are 0..1, minCpu is a CPU quantity."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"!has(self.minCpu) || [{number_of('self.minCpu', percent=False)}].all(cores,"
            " cores >= 0.01 && cores <= 1000.0 && int(cores * 1000000.0 + 0.5) % 1000 == 0)",
            "must be whole milli-cores from 10m (the kernel's least) to 1000",
            "minCpu",
            by_admission=True,
        ),
    )
    min_ratio: Share = Field(Decimal(0), description="no CPU limit is set below this share of the node's CPU")
    step_ratio: Step = Field(Decimal(1), description="most of a pod's limit that one cycle takes, as a share")
    restore_step_ratio: Step = Field(
        Decimal("0.5"), description="most of a limit that one cycle gives back, as a share"
    )
    request_ratio: Share = Field(Decimal(0), description="no CPU limit is set below this share of the pod's request")
    min_cpu: Written = Field("50m", description="no CPU limit is set below this quantity")

    @field_validator("min_cpu")
    @classmethod
    def _whole(cls, text: str | float) -> str | float:
        milli = in_unit_of(Dimension.CPU, text_of(text))
        if not 10 <= milli <= 1_000_000 or milli != int(milli):
            raise ValueError(
                f"{text!r} is not possible; allowed: whole milli-cores from 10m (the kernel's least) to 1000"
            )
        return text

    def bounds(self) -> ThrottleBounds:
        least = int(in_unit_of(Dimension.CPU, text_of(self.min_cpu)))
        return ThrottleBounds(self.min_ratio, self.step_ratio, self.request_ratio, least)


class EvictionSpec(Part):
    """`terminationGracePeriodSeconds` shortens that of the pod; of several actions the shortest counts."""

    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=86400)] | None = Field(
        None, description="shortens that of the pod; of several actions the shortest counts"
    )


class AvoidanceActionSpec(Part):
    """`coolDownSeconds`: how long after the last trigger the node stays closed to new pods."""

    cool_down_seconds: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = Field(
        300.0, description="how long after the last trigger the node stays closed to new pods"
    )
    throttle: CpuThrottleSpec | None = Field(None, description="how CPU limits move; absent: CPU is not throttled")
    memory: MemoryThrottleSpec | None = Field(
        None, description="how memory limits move; absent: memory is not throttled"
    )
    eviction: EvictionSpec | None = Field(None, description="present: pods may be evicted")
    disable_scheduling: bool = Field(True, description="whether the node is closed to new pods meanwhile")
    description: Annotated[str, Field(max_length=1024)] = Field("", description="what it is for, in words")


class AvoidanceAction(Resource):
    """The document."""

    kind: Literal["AvoidanceAction"] = "AvoidanceAction"
    spec: AvoidanceActionSpec

    def action(self) -> PolicyAction:
        throttle, eviction = self.spec.throttle, self.spec.eviction
        return PolicyAction(
            name=self.metadata.name,
            throttle=None if throttle is None else throttle.bounds(),
            restore=RestoreBounds() if throttle is None else RestoreBounds(throttle.restore_step_ratio),
            evicts=eviction is not None,
            grace_seconds=None if eviction is None else eviction.termination_grace_period_seconds,
            disables_scheduling=self.spec.disable_scheduling,
            cool_down_seconds=self.spec.cool_down_seconds,
            memory=None if self.spec.memory is None else self.spec.memory.bounds(),
        )
