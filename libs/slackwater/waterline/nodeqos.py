"""The NodeQOS document: what an operator writes, in Kubernetes' shape, validated before anything is stored.

The field names of the peer where it has them (metricRule, avoidanceThreshold, restoreThreshold); every ratio is 0..1,
every duration in seconds, and numbers stay as they were written (the peer rounds waterlines up to integers).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from slackwater.decisions.reasons import Mode
from slackwater.waterline.documents import API_VERSION, Label, Metadata, Part
from slackwater.waterline.metrics import METRICS
from slackwater.waterline.policy import KERNEL_MINIMUM_MILLI, Rule, ThrottlePolicy, WaterlinePolicy

KIND: Final = "NodeQOS"

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]
Samples = Annotated[int, Field(ge=1, le=1000)]
WeightChoice = Literal["by-request", "by-tier"]


_DEFAULTS: Final = ThrottlePolicy()


class MetricRule(Part):
    """A metric of slackwater.waterline.metrics and the waterline on it."""

    name: str
    value: Ratio

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in METRICS:
            raise ValueError(f"{name!r} is not a metric; allowed: {', '.join(sorted(METRICS))}")
        return name


class RuleSpec(Part):
    """See slackwater.waterline.policy.Rule."""

    name: Label
    metric_rule: MetricRule
    avoidance_threshold: Samples = 1
    restore_threshold: Samples = 2
    cool_down_seconds: Seconds = 3.0

    def rule(self) -> Rule:
        return Rule(
            self.name,
            self.metric_rule.name,
            self.metric_rule.value,
            self.avoidance_threshold,
            self.restore_threshold,
            self.cool_down_seconds,
        )


class ThrottleSpec(Part):
    """See slackwater.waterline.policy.ThrottlePolicy; what is left out has its default."""

    excess_ratio: Ratio = _DEFAULTS.excess_ratio
    min_cpu_milli: Annotated[int, Field(ge=KERNEL_MINIMUM_MILLI, le=1_000_000)] = _DEFAULTS.min_cpu_milli
    min_request_ratio: Ratio = _DEFAULTS.min_request_ratio
    min_change_ratio: Ratio = _DEFAULTS.min_change_ratio
    step_ratio: Annotated[float, Field(gt=0, le=1)] = _DEFAULTS.step_ratio
    release_ratio: Ratio = _DEFAULTS.release_ratio
    headroom_margin_ratio: Ratio = _DEFAULTS.headroom_margin_ratio
    settle_seconds: Seconds = _DEFAULTS.settle_seconds
    pending_seconds: Seconds = _DEFAULTS.pending_seconds
    relapse_seconds: Seconds = _DEFAULTS.relapse_seconds
    probe_seconds: Seconds = _DEFAULTS.probe_seconds
    probe_ratio: Annotated[float, Field(gt=0, le=1)] = _DEFAULTS.probe_ratio


class NodeQosSpec(Part):
    """`mode` observe records what would be done, throttle does it; `weights` is how pods share CPU by themselves."""

    mode: Literal["observe", "throttle"] = "throttle"
    weights: WeightChoice = "by-tier"
    rules: Annotated[tuple[RuleSpec, ...], Field(max_length=20)]
    throttle: ThrottleSpec = ThrottleSpec()

    @field_validator("rules")
    @classmethod
    def _unique(cls, rules: tuple[RuleSpec, ...]) -> tuple[RuleSpec, ...]:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise ValueError(f"rule names must be unique; got {', '.join(names)}")
        return rules


class NodeQos(Part):
    """One document. Only `default`, for the whole cluster, exists so far."""

    api_version: Literal["slackwater.io/v1alpha1"] = API_VERSION
    kind: Literal["NodeQOS"] = KIND
    metadata: Metadata
    spec: NodeQosSpec

    def changed_to(self, generation: int, by: str) -> NodeQos:
        return self.model_copy(update={"metadata": self.metadata.at(generation, by)})

    def with_generation(self, generation: int) -> NodeQos:
        return self.model_copy(update={"metadata": self.metadata.at(generation)})

    def policy(self) -> WaterlinePolicy:
        """What the planner needs of it."""
        return WaterlinePolicy(
            name=self.metadata.name,
            generation=self.metadata.generation,
            mode=Mode(self.spec.mode),
            rules=tuple(rule.rule() for rule in self.spec.rules),
            throttle=ThrottlePolicy(**self.spec.throttle.model_dump()),
        )
