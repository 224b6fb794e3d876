"""How memory of batch pods is throttled, and whether requested memory of prod pods is protected."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from slackwater.resources.cel import CelRule, number_of
from slackwater.resources.metadata import Part
from slackwater.waterline.actuation.memory_high import PAGE_BYTES, MemoryBounds
from slackwater.waterline.policies.quantity import Written, in_unit_of, text_of
from slackwater.waterline.registry.metric import Dimension

_DEFAULTS: Final = MemoryBounds()
_MOST_BYTES: Final = 2**40

Share = Annotated[Decimal, Field(ge=0, le=1, allow_inf_nan=False)]
Step = Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]
Margin = Annotated[Decimal, Field(ge=1, le=10, allow_inf_nan=False)]
Horizon = Annotated[Decimal, Field(gt=0, le=3600, allow_inf_nan=False)]
ProtectionChoice = Literal["none", "low", "min"]


class MemoryThrottleSpec(Part):
    """See slackwater.waterline.actuation.memory_high. A limit is never below the largest of `minRequestRatio` of the
    pod's memory request, `minMemory`, and `unreclaimableMargin` times the memory that the kernel cannot drop. One cycle
    takes at most `stepRatio` of what a pod holds and gives back at most `restoreStepRatio` of its limit; changes below
    `minChange` are not written. What prod reads again within `refaultHorizonSeconds` is what it lacks."""

    RULES: ClassVar[tuple[CelRule, ...]] = tuple(
        CelRule(
            f"!has(self.{field}) || [{number_of(f'self.{field}', percent=False)}].all(amount,"
            f" amount >= {float(PAGE_BYTES)} && amount <= {float(_MOST_BYTES)})",
            f"must be {PAGE_BYTES} bytes (a page) to 1Ti",
            field,
            by_admission=True,
        )
        for field in ("minMemory", "minChange")
    )
    min_request_ratio: Share = Field(
        _DEFAULTS.min_ratio, description="no limit is set below this share of the pod's memory request"
    )
    min_memory: Written = Field("64Mi", description="no limit is set below this quantity")
    unreclaimable_margin: Margin = Field(
        _DEFAULTS.margin_ratio, description="no limit is set below so many times the memory that the kernel cannot drop"
    )
    step_ratio: Step = Field(
        _DEFAULTS.step_ratio, description="most of what a pod holds that one cycle takes, as a share"
    )
    restore_step_ratio: Step = Field(
        _DEFAULTS.restore_step_ratio, description="most of a limit that one cycle gives back, as a share"
    )
    min_change: Written = Field("16Mi", description="smaller changes are not written")
    refault_horizon_seconds: Horizon = Field(
        _DEFAULTS.horizon_seconds, description="what prod reads again within this time is what it lacks"
    )

    @field_validator("min_memory", "min_change")
    @classmethod
    def _bytes(cls, text: str | float) -> str | float:
        amount = in_unit_of(Dimension.MEMORY, text_of(text))
        if not PAGE_BYTES <= amount <= _MOST_BYTES:
            raise ValueError(f"{text!r} is not possible; allowed: {PAGE_BYTES} bytes (a page) to 1Ti")
        return text

    def bounds(self) -> MemoryBounds:
        return MemoryBounds(
            self.min_request_ratio,
            int(in_unit_of(Dimension.MEMORY, text_of(self.min_memory))),
            self.unreclaimable_margin,
            self.step_ratio,
            self.restore_step_ratio,
            int(in_unit_of(Dimension.MEMORY, text_of(self.min_change))),
            self.refault_horizon_seconds,
        )


class MemorySpec(MemoryThrottleSpec):
    """The parameters of the action `throttle`. `protection`: whether agents protect the requested memory of prod pods
    with memory.low or memory.min of cgroup v2."""

    protection: ProtectionChoice = Field(
        "none",
        description="whether agents protect the requested memory of prod pods, and by memory.low or memory.min",
    )
