"""The NodeQOS `default` of the whole cluster: mode, CPU weights, throttle parameters, and rules.

Field names are the peer's where it has them (metricRule, avoidanceThreshold, restoreThreshold).
Ratios are 0..1, durations in seconds, and numbers stay as written (the peer rounds waterlines up to
integers). Documents of other names select nodes and have only rules
(slackwater.waterline.policies.rules).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator

from slackwater.model.errors import InvalidInput
from slackwater.resources.metadata import Label, Part, Resource
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.loop.usefulness import QuotaUse
from slackwater.waterline.policies.memory import MemorySpec
from slackwater.waterline.policies.rules import RuleSpec, Samples, Seconds
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics

THROTTLE: Final = "throttle"
"""The action of rules that name none; it always exists."""
KERNEL_MINIMUM_MILLI: Final = 10
"""The kernel refuses a CFS quota below 1 ms; at the usual period of 100 ms that is 10 milli-cores."""

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
WeightChoice = Literal["by-request", "by-tier", "by-tier-idle"]
_DEFAULTS: Final = LoopPolicy()


class ClusterRuleSpec(RuleSpec):
    """A rule that may leave out what it does, and then throttles."""

    restore_threshold: Samples = Field(2, description="so many samples in a row below it end the action")
    action_name: Label = Field(THROTTLE, description="AvoidanceAction that is carried out")


class ThrottleSpec(Part):
    """How limits move; what is left out has its default. See slackwater.waterline.loop.feedback.LoopPolicy, and:

    excessRatio      how much more than the gap may be released (hysteresis; the gap is a lower bound)
    minCpuMilli      no limit is set below this,
    minRequestRatio  nor below this share of the pod's request
    """

    excess_ratio: Ratio = Field(0.10, description="how much more than the gap may be released, as a share of it")
    min_cpu_milli: Annotated[int, Field(ge=KERNEL_MINIMUM_MILLI, le=1_000_000)] = Field(
        50, description="no limit is set below so many milli-cores"
    )
    min_request_ratio: Ratio = Field(0.0, description="no limit is set below this share of the pod's request")
    min_change_ratio: Ratio = Field(
        _DEFAULTS.min_change_ratio, description="smaller changes are not written, as a share of the node's CPU"
    )
    step_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        _DEFAULTS.step_ratio, description="most that one cycle gives back, as a share"
    )
    release_ratio: Ratio = Field(
        _DEFAULTS.release_ratio,
        description="prod use at or below this share of its demand at the trigger: the demand is gone",
    )
    headroom_margin_ratio: Ratio = Field(
        _DEFAULTS.headroom_margin_ratio,
        description="share of the node that stays idle when limits rise while the demand is still high",
    )
    settle_seconds: Seconds = Field(
        _DEFAULTS.settle_seconds,
        description="a sample counts only if it ends so long after the last write was observed",
    )
    pending_seconds: Seconds = Field(
        _DEFAULTS.pending_seconds, description="an unconfirmed write is no longer waited for after this time"
    )
    relapse_seconds: Seconds = Field(
        _DEFAULTS.relapse_seconds,
        description="a trigger so soon after a raise is attributed to it: the next ones come later and smaller",
    )
    probe_seconds: Seconds = Field(
        _DEFAULTS.probe_seconds, description="calm for so long allows small raises, whatever prod uses"
    )
    probe_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        _DEFAULTS.probe_ratio, description="size of such a raise per cycle, as a share"
    )
    quota: QuotaUse = Field(
        _DEFAULTS.quota,
        description="when-helpful: limits come where weights do not suffice, and go if without effect; always: at once",
    )
    quota_after_seconds: Seconds = Field(
        _DEFAULTS.quota_after_seconds,
        description="a waterline that weights protect stays crossed for so long before limits are tried",
    )
    trials: Annotated[int, Field(ge=1, le=100)] = Field(
        _DEFAULTS.trials, description="so many samples are compared to judge whether limits help"
    )
    least_relief: Ratio = Field(
        _DEFAULTS.least_relief, description="limits help if they relieve this much more than without them, as a share"
    )
    useless_backoff_seconds: Seconds = Field(
        _DEFAULTS.useless_backoff_seconds,
        description="how long limits that did not help are not tried again; doubles each time",
    )
    useless_backoff_most_seconds: Seconds = Field(
        _DEFAULTS.useless_backoff_most_seconds, description="the longest such time"
    )
    damping_seconds: Seconds = Field(
        _DEFAULTS.damping_seconds, description="wait before limits rise after a reversal; doubles with each"
    )
    damping_most_seconds: Seconds = Field(_DEFAULTS.damping_most_seconds, description="the longest such wait")
    surges_per_hour: Annotated[int, Field(ge=0, le=3600)] = Field(
        _DEFAULTS.surges_per_hour, description="reversals for surges of prod that are not damped"
    )

    def loop(self) -> LoopPolicy:
        own = {"excess_ratio", "min_cpu_milli", "min_request_ratio"}
        return LoopPolicy(**self.model_dump(exclude=own))


class NodeQosSpec(Part):
    """`mode` is for pools without an Autonomy: observe only records, throttle acts on limits, evict also ends pods
    where a rule asks for it. `weights` is how pods share CPU: by request, by tier, or by tier with batch and free as
    idle. `memory` is how memory of batch and free pods is throttled."""

    LIST_KEYS: ClassVar[Mapping[str, str]] = {"rules": "name"}

    mode: Literal["observe", "throttle", "evict"] = Field(
        "throttle",
        description="of pools without an Autonomy: observe only records, throttle acts on limits, evict also ends pods",
    )
    weights: WeightChoice = Field(
        "by-tier-idle", description="how pods share CPU: by request, by tier, or by tier with batch and free as idle"
    )
    rules: Annotated[tuple[ClusterRuleSpec, ...], Field(max_length=50)] = Field(
        description="waterlines, each with its action"
    )
    throttle: ThrottleSpec = Field(ThrottleSpec(), description="how CPU limits move")
    memory: MemorySpec = Field(
        MemorySpec(), description="how memory of batch and free pods is throttled, and that of prod protected"
    )

    @field_validator("rules")
    @classmethod
    def _unique(cls, rules: tuple[ClusterRuleSpec, ...]) -> tuple[ClusterRuleSpec, ...]:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise ValueError(f"rule names must be unique; got {', '.join(names)}")
        return rules


class NodeQos(Resource):
    """The document."""

    kind: Literal["NodeQOS"] = "NodeQOS"
    spec: NodeQosSpec

    @classmethod
    def parse_stored(cls, document: Any, metrics: Metrics | None = None) -> Self:
        """Returns a stored document under the rules of its time (a waterline of 0, a metric that is
        gone). Raises InvalidInput.
        """
        try:
            return cls.model_validate(document, context={"stored": True, "metrics": metrics or all_metrics()})
        except ValidationError as error:
            raise InvalidInput(f"nodeqos: {error.errors()[0]['msg']}", field="spec") from None
