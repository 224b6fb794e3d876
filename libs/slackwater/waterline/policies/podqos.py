"""PodQOS: which pods, by label, QoS class, priority and namespace, may suffer which actions.

A pod that no PodQOS names for an action never suffers it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from slackwater.model.memo import Outcomes
from slackwater.model.tiers import QoSClass
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Label, Part, Resource
from slackwater.resources.selectors import FEW_EXPRESSIONS, LabelSelector, Values
from slackwater.waterline.facts.pods import PodUse

PodScope = tuple[QoSClass | None, int | None, str]
"""Class, priority and namespace of a pod."""
_RANGE: Final = re.compile(r"(-?\d{1,10})(?:-(-?\d{1,10}))?", re.ASCII)
_KUBERNETES: Final = {
    "BestEffort": frozenset({QoSClass.BE}),
    "Burstable": frozenset({QoSClass.LS}),
    "Guaranteed": frozenset({QoSClass.LSR, QoSClass.LSE}),
}


class ScopeExpression(Part):
    """One condition on what a pod is. Priorities are numbers or ranges that include both ends, negative ones too."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"self.scopeName != 'QOSClass' || self.values.all(value, value in {[*map(str, QoSClass), *_KUBERNETES]})",
            f"QoS classes are {', '.join((*QoSClass, *_KUBERNETES))}",
            "values",
        ),
        CelRule(
            "self.scopeName != 'Priority' || self.values.all(value,"
            r" value.matches('^\\s*-?[0-9]{1,10}(-(-?[0-9]{1,10}))?\\s*$')"
            " && (!value.matches('[0-9]-') || int(value.trim().substring(value.trim().find('^-?[0-9]+').size() + 1))"
            " >= int(value.trim().find('^-?[0-9]+'))))",
            "a priority or a range such as 5000, -100, 5000-5999, -200--100",
            "values",
            by_admission=True,
        ),
    )

    scope_name: Literal["QOSClass", "Priority", "Namespace"] = Field(description="what of the pod is compared")
    operator: Literal["In", "NotIn"] = Field(description="whether it must be one of the values, or none of them")
    values: Annotated[Values, Field(min_length=1)] = Field(
        description="QoS classes, priorities and ranges of them (both ends count), or namespaces"
    )

    @model_validator(mode="after")
    def _known(self) -> ScopeExpression:
        for value in self.values:
            if self.scope_name == "QOSClass" and value not in (*_KUBERNETES, *QoSClass):
                raise ValueError(f"QoS class {value!r} is unknown; allowed: {', '.join((*QoSClass, *_KUBERNETES))}")
            if self.scope_name == "Priority":
                _range_of(value)
        return self

    @cached_property
    def classes(self) -> frozenset[QoSClass]:
        """Returns the named QoS classes, with Kubernetes' names translated."""
        if self.scope_name != "QOSClass":
            return frozenset()
        named = (_KUBERNETES.get(value) or frozenset({QoSClass(value)}) for value in self.values)
        return frozenset().union(*named)

    def matches(self, scope: PodScope) -> bool:
        """Returns whether the scope matches. A missing attribute is in no list: In fails, NotIn holds."""
        return self._is_in(scope) == (self.operator == "In")

    def _is_in(self, scope: PodScope) -> bool:
        qos, priority, namespace = scope
        match self.scope_name:
            case "QOSClass":
                return qos in self.classes
            case "Namespace":
                return namespace in self.values
            case "Priority":
                return priority is not None and any(priority in one for one in self._ranges)

    @cached_property
    def _ranges(self) -> tuple[range, ...]:
        return tuple(_range_of(value) for value in self.values)


def _range_of(text: str) -> range:
    found = _RANGE.fullmatch(text.strip())
    if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
        raise ValueError(f"{text!r} is neither a priority nor a range; allowed: 5000, -100, 5000-5999, -200--100")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


class ScopeSelector(Part):
    """All conditions hold."""

    match_expressions: tuple[ScopeExpression, ...] = Field(
        (), description="conditions, all of which hold; without one it matches every pod"
    )

    def matches(self, pod: PodUse) -> bool:
        scope = pod.qos, pod.priority, pod.namespace
        return self._holds(scope) if len(self.match_expressions) <= FEW_EXPRESSIONS else self._outcomes(scope)

    def _holds(self, scope: PodScope) -> bool:
        for expression in self.match_expressions:  # noqa: SIM110 - a third faster than all(), once per pod and policy
            if not expression.matches(scope):
                return False
        return True

    @cached_property
    def _outcomes(self) -> Outcomes[PodScope]:
        return Outcomes(self._holds)

    @cached_property
    def named_classes(self) -> frozenset[QoSClass]:
        """Returns the QoS classes selected by name."""
        named = (expression.classes for expression in self.match_expressions if expression.operator == "In")
        return frozenset().union(*named)


class PodQosSpec(Part):
    """Both selectors hold; with neither it matches nothing. A scopeSelector without conditions matches every pod."""

    label_selector: LabelSelector | None = Field(None, description="labels of the pods")
    scope_selector: ScopeSelector | None = Field(None, description="QoS class, priority or namespace of the pods")
    allowed_actions: Annotated[tuple[Label, ...], Field(max_length=50)] = Field(
        (), description="AvoidanceActions that may be carried out on the pods; empty: none"
    )

    def matches(self, pod: PodUse) -> bool:
        if self.label_selector is None and self.scope_selector is None:
            return False
        return (self.label_selector is None or self.label_selector.matches(pod.labels)) and (
            self.scope_selector is None or self.scope_selector.matches(pod)
        )

    @cached_property
    def actions(self) -> frozenset[str]:
        return frozenset(self.allowed_actions)

    @property
    def named_classes(self) -> frozenset[QoSClass]:
        return frozenset() if self.scope_selector is None else self.scope_selector.named_classes


class PodQos(Resource):
    """The document."""

    kind: Literal["PodQOS"] = "PodQOS"
    spec: PodQosSpec
