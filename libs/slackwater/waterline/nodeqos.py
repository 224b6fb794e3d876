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

    restore_threshold: Samples = 2
    action_name: Label = THROTTLE


class ThrottleSpec(Part):
    """How limits move; what is left out has its default. See slackwater.waterline.loop.feedback.LoopPolicy, and:

    excessRatio      how much more than the gap may be released (hysteresis; the gap is a lower bound)
    minCpuMilli      no limit is set below this,
    minRequestRatio  nor below this share of the pod's request
    """

    excess_ratio: Ratio = 0.10
    min_cpu_milli: Annotated[int, Field(ge=KERNEL_MINIMUM_MILLI, le=1_000_000)] = 50
    min_request_ratio: Ratio = 0.0
    min_change_ratio: Ratio = _DEFAULTS.min_change_ratio
    step_ratio: Annotated[float, Field(gt=0, le=1)] = _DEFAULTS.step_ratio
    release_ratio: Ratio = _DEFAULTS.release_ratio
    headroom_margin_ratio: Ratio = _DEFAULTS.headroom_margin_ratio
    settle_seconds: Seconds = _DEFAULTS.settle_seconds
    pending_seconds: Seconds = _DEFAULTS.pending_seconds
    relapse_seconds: Seconds = _DEFAULTS.relapse_seconds
    probe_seconds: Seconds = _DEFAULTS.probe_seconds
    probe_ratio: Annotated[float, Field(gt=0, le=1)] = _DEFAULTS.probe_ratio
    quota: QuotaUse = _DEFAULTS.quota
    quota_after_seconds: Seconds = _DEFAULTS.quota_after_seconds
    trials: Annotated[int, Field(ge=1, le=100)] = _DEFAULTS.trials
    least_relief: Ratio = _DEFAULTS.least_relief
    useless_backoff_seconds: Seconds = _DEFAULTS.useless_backoff_seconds
    useless_backoff_most_seconds: Seconds = _DEFAULTS.useless_backoff_most_seconds
    damping_seconds: Seconds = _DEFAULTS.damping_seconds
    damping_most_seconds: Seconds = _DEFAULTS.damping_most_seconds
    surges_per_hour: Annotated[int, Field(ge=0, le=3600)] = _DEFAULTS.surges_per_hour

    def loop(self) -> LoopPolicy:
        own = {"excess_ratio", "min_cpu_milli", "min_request_ratio"}
        return LoopPolicy(**self.model_dump(exclude=own))


class NodeQosSpec(Part):
    """`mode` is for pools without an Autonomy: observe only records, throttle acts on limits, evict also ends pods
    where a rule asks for it. `weights` is how pods share CPU: by request, by tier, or by tier with batch and free as
    idle. `memory` is how memory of batch and free pods is throttled."""

    LIST_KEYS: ClassVar[Mapping[str, str]] = {"rules": "name"}

    mode: Literal["observe", "throttle", "evict"] = "throttle"
    weights: WeightChoice = "by-tier-idle"
    rules: Annotated[tuple[ClusterRuleSpec, ...], Field(max_length=50)]
    throttle: ThrottleSpec = ThrottleSpec()
    memory: MemorySpec = MemorySpec()

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
