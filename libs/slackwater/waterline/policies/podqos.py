"""PodQOS: which pods may suffer which actions. A pod that no PodQOS names for an action never suffers it."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from slackwater.model.tiers import QoSClass
from slackwater.resources.metadata import Label, Part, Resource
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.selectors import ScopeSelector


class PodQosSpec(Part):
    """Both selectors hold; with neither it matches nothing. A scopeSelector without conditions matches every pod."""

    label_selector: LabelSelector | None = None
    scope_selector: ScopeSelector | None = None
    allowed_actions: Annotated[tuple[Label, ...], Field(max_length=50)] = ()

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
