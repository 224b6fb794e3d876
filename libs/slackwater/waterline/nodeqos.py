"""The NodeQOS document: what an operator writes, in Kubernetes' shape, validated before anything is stored.

The field names of the peer where it has them (metricRule, avoidanceThreshold, restoreThreshold); every ratio is 0..1,
every duration in seconds, and numbers stay as they were written (the peer rounds waterlines up to integers).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from slackwater.decisions.reasons import Mode
from slackwater.model.errors import InvalidInput
from slackwater.waterline.metrics import METRICS
from slackwater.waterline.policy import KERNEL_MINIMUM_MILLI, Rule, ThrottlePolicy, WaterlinePolicy

API_VERSION: Final = "slackwater.io/v1alpha1"
KIND: Final = "NodeQOS"

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]
Samples = Annotated[int, Field(ge=1, le=1000)]
WeightChoice = Literal["by-request", "by-tier"]


_DEFAULTS: Final = ThrottlePolicy()


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class MetricRule(_Part):
    """A metric of slackwater.waterline.metrics and the waterline on it."""

    name: str
    value: Ratio

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in METRICS:
            raise ValueError(f"{name!r} is not a metric; allowed: {', '.join(sorted(METRICS))}")
        return name


class RuleSpec(_Part):
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


class ThrottleSpec(_Part):
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


class NodeQosSpec(_Part):
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


class Metadata(_Part):
    """`generation` rises with every change of the spec; 0 or absent in a document that is to be applied."""

    name: Label
    generation: Annotated[int, Field(ge=0)] = 0
    changed_by: str = ""
    """Who made this generation, as its token is named. Set by the server, ignored in what is applied."""


class NodeQos(_Part):
    """One document. Only `default`, for the whole cluster, exists so far."""

    api_version: Literal["slackwater.io/v1alpha1"] = API_VERSION
    kind: Literal["NodeQOS"] = KIND
    metadata: Metadata
    spec: NodeQosSpec

    @classmethod
    def parse(cls, document: Any) -> Self:
        """Raises InvalidInput that names the first wrong field and says what is wrong with it."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"{field}: {first['msg']}; got {first['input']!r}", field=field) from None

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def changed_to(self, generation: int, by: str) -> NodeQos:
        metadata = self.metadata.model_copy(update={"generation": generation, "changed_by": by})
        return self.model_copy(update={"metadata": metadata})

    def with_generation(self, generation: int) -> NodeQos:
        return self.model_copy(update={"metadata": self.metadata.model_copy(update={"generation": generation})})

    def policy(self) -> WaterlinePolicy:
        """What the planner needs of it."""
        return WaterlinePolicy(
            name=self.metadata.name,
            generation=self.metadata.generation,
            mode=Mode(self.spec.mode),
            rules=tuple(rule.rule() for rule in self.spec.rules),
            throttle=ThrottlePolicy(**self.spec.throttle.model_dump()),
        )
