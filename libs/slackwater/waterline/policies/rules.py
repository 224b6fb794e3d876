"""NodeQOS: rules with any registered metric, selectors over series, named actions.

These documents select nodes; the cluster's, `default`, is slackwater.waterline.nodeqos.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from slackwater.model.errors import InvalidInput
from slackwater.resources.cel import CelRule, number_of
from slackwater.resources.metadata import Label, Part, Resource, first_wrong
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.policies.quantity import Written, foreign_unit, in_unit_of, text_of
from slackwater.waterline.policies.values import NodePolicy, Rule
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Dimension, Metric, Metrics
from slackwater.waterline.registry.plugins import all_metrics

Samples = Annotated[int, Field(ge=1, le=1000)]
Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


def _metrics(info: ValidationInfo) -> Metrics:
    metrics: Metrics | None = (info.context or {}).get("metrics")
    return all_metrics() if metrics is None else metrics


def _metric(name: str, info: ValidationInfo) -> Metric:
    metrics = _metrics(info)
    metric = metrics.get(name)
    if metric is None:
        raise ValueError(f"{name!r} is not a metric; allowed: {', '.join(metrics.names())}")
    return metric


class MetricRuleSpec(Part):
    """A metric, the series that count, the waterline, and the target of a release (default: the waterline itself).

    Quantities in the metric's dimension: cores, bytes, ratios.
    """

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(f"{number_of('self.value')} > 0.0", "must be above 0", "value", by_admission=True),
        CelRule(
            f"!has(self.target) || [{number_of('self.target')}].all(target,"
            f" target >= 0.0 && target <= {number_of('self.value')})",
            "must not be below 0 or above the value",
            "target",
            by_admission=True,
        ),
    )
    name: str = Field(description="of the metric")
    selector: LabelSelector | None = Field(None, description="labels of the pods that count; absent: all")
    value: Written = Field(description="waterline, in the metric's dimension: cores, bytes or a ratio")
    target: Written | None = Field(None, description="down to what is released; absent: the waterline")

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Self:
        stored = bool((info.context or {}).get("stored"))
        if stored and _metrics(info).get(self.name) is None:
            return self  # the metric is gone; the rule is inactive
        metric = _metric(self.name, info)
        value, target = self.amounts(metric)
        if value < 0 or (value == 0 and not stored):
            raise ValueError(f"value {self.value} must be above 0")
        if metric.dimension is Dimension.RATIO and value > metric.largest:
            raise ValueError(
                f"value {self.value} is above the maximum of {metric.name}; allowed: a ratio up to 1, like 0.85 or 85%"
            )
        if target is not None and target > value:
            raise ValueError(f"target {self.target} must not be above the value {self.value}")
        wrong = metric.check(value, target) or (None if stored else self._nonsense(metric, value, target))
        if wrong is not None:
            raise ValueError(wrong)
        return self

    def _nonsense(self, metric: Metric, value: Decimal, target: Decimal | None) -> str | None:
        """Returns the error of a value that is refused on apply but accepted from the store."""
        if target is not None and target < 0:
            return f"target {self.target} must not be below 0"
        if metric.dimension in (Dimension.MEMORY, Dimension.BYTES_PER_SECOND) and value < 1:
            return f"value {self.value} is less than one byte; for a share of the whole use a ratio metric"
        written = (text_of(one) for one in (self.value, self.target) if one is not None)
        return next((wrong for one in written if (wrong := foreign_unit(metric.dimension, one)) is not None), None)

    def amounts(self, metric: Metric) -> tuple[Decimal, Decimal | None]:
        """Returns value and target in the metric's unit. Raises ValueError."""
        value = in_unit_of(metric.dimension, text_of(self.value))
        return value, None if self.target is None else in_unit_of(metric.dimension, text_of(self.target))


class RuleSpec(Part):
    """See slackwater.waterline.policies.values.Rule. `coolDownSeconds` counts from the last trigger; before it is over
    nothing is restored. Strategy Preview plans and records, and changes nothing."""

    name: Label = Field(description="of the rule, unique in the document")
    metric_rule: MetricRuleSpec = Field(description="what is measured, and the waterline")
    avoidance_threshold: Samples = Field(
        1, description="so many samples in a row above the waterline trigger the action"
    )
    restore_threshold: Samples = Field(1, description="so many samples in a row below it end the action")
    cool_down_seconds: Seconds = Field(3.0, description="from the last trigger; before it is over nothing is restored")
    action_name: Label = Field(description="AvoidanceAction that is carried out")
    strategy: Literal["None", "Preview"] = Field("None", description="Preview plans and records, and changes nothing")

    def rule(self, policy: str, metrics: Metrics) -> Rule:
        metric = metrics.get(self.metric_rule.name)
        if metric is None:
            raise InvalidInput(f"metric {self.metric_rule.name} is not registered here", field="metricRule.name")
        value, target = self.metric_rule.amounts(metric)
        return Rule(
            policy=policy,
            name=self.name,
            metric=metric.name,
            waterline=value,
            target=metric.target_of(value) if target is None else target,
            action=self.action_name,
            selector=self.metric_rule.selector,
            avoidance_threshold=self.avoidance_threshold,
            restore_threshold=self.restore_threshold,
            cool_down_seconds=self.cool_down_seconds,
            is_preview=self.strategy == "Preview",
        )


class NodeQosRulesSpec(Part):
    """Without a selector: all nodes. `mode`, `weights` and `throttle` are set for the whole cluster, in `default`."""

    LIST_KEYS: ClassVar[Mapping[str, str]] = {"rules": "name"}

    selector: LabelSelector | None = Field(None, description="labels of the nodes; absent: all")
    rules: Annotated[tuple[RuleSpec, ...], Field(max_length=50)] = Field(description="waterlines, each with its action")

    @field_validator("rules")
    @classmethod
    def _unique(cls, rules: tuple[RuleSpec, ...]) -> tuple[RuleSpec, ...]:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise ValueError(f"rule names must be unique; got {', '.join(names)}")
        return rules


class NodeQosRules(Resource):
    """The document."""

    kind: Literal["NodeQOS"] = "NodeQOS"
    spec: NodeQosRulesSpec

    @classmethod
    def parse(cls, document: Any, metrics: Metrics = BUILT_IN) -> Self:
        """Returns a document checked against the given metrics. Raises InvalidInput that names the
        first wrong field.
        """
        try:
            return cls.model_validate(document, context={"metrics": metrics})
        except ValidationError as error:
            raise first_wrong(error, document, cls) from None

    @classmethod
    def parse_stored(cls, document: Any, metrics: Metrics | None = None) -> Self:
        """Returns a stored document; the metric of a rule may have been uninstalled since. Raises
        InvalidInput.
        """
        try:
            return cls.model_validate(document, context={"stored": True, "metrics": metrics or all_metrics()})
        except ValidationError as error:
            raise InvalidInput(f"nodeqos: {error.errors()[0]['msg']}", field="spec") from None

    def policy(self, metrics: Metrics = BUILT_IN) -> NodePolicy:
        rules = tuple(rule.rule(self.metadata.name, metrics) for rule in self.spec.rules)
        return NodePolicy(self.metadata.name, rules, self.spec.selector)
