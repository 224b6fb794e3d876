"""ClusterColocationProfile: labels, tier, QoS class, priority and resources of the pods that it selects."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from slackwater.model.tiers import PRIORITY_RANGES, QoSClass, Tier
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Part, Resource
from slackwater.resources.selectors import LabelSelector

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
Key = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=253,  # of what stands before the slash; longer ones do not occur
        pattern=rf"^({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$",
    ),
]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
AnnotationValue = Annotated[str, StringConstraints(max_length=4096)]
DnsName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Labels = Annotated[dict[Key, LabelValue], Field(max_length=100)]
Annotations = Annotated[dict[Key, AnnotationValue], Field(max_length=100)]
KeysMapping = Annotated[dict[Key, Key], Field(max_length=100)]
ResourceDomain = Literal["slackwater.io", "kubernetes.io", "none"]

JUDGED: Final = (
    *("kubernetes.io/config.", "scheduler.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/"),
    *("container.seccomp.security.alpha.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/"),
)
"""How annotations begin of which the API server judges the value, and so may refuse the pod."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
COST: Final = "^(0|-?[1-9][0-9]{0,8})$"

REWRITTEN: Final = (Tier.BATCH, Tier.MID)
"""Tiers with resources of their own."""
QOS_OF_TIERS: Final = {
    Tier.PROD: (QoSClass.LSE, QoSClass.LSR, QoSClass.LS, QoSClass.SYSTEM),
    **dict.fromkeys((Tier.MID, Tier.BATCH, Tier.FREE), (QoSClass.LS, QoSClass.BE, QoSClass.SYSTEM)),
}
"""The field's table of what may be combined. Its webhook also lets LSE pass with lower tiers."""


class PriorityClass(Part):
    """A PriorityClass with the value and policy that it has. The API server refuses a pod that states others, and
    resolves classes before it applies profiles, so that the profile must state them."""

    name: DnsName = Field(description="of the PriorityClass that the pods get; it must be in the cluster")
    value: Annotated[int, Field(ge=-(2**31), le=10**9)] = Field(
        description="of that class; it must be in the range of the tier"
    )
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = Field(
        "PreemptLowerPriority", description="of that class"
    )


def _rules() -> tuple[CelRule, ...]:
    pairs = [
        f"(self.tier == '{tier}' && self.qosClass in {[*map(str, classes)]})" for tier, classes in QOS_OF_TIERS.items()
    ]
    bands = [
        f"(self.tier == '{tier}' && self.priorityClass.value >= {band.start} && self.priorityClass.value < {band.stop})"
        for tier, band in PRIORITY_RANGES.items()
    ]
    allowed = "; ".join(f"{tier}: {', '.join(classes)}" for tier, classes in QOS_OF_TIERS.items())
    ranges = ", ".join(f"{tier} {band.start}-{band.stop - 1}" for tier, band in PRIORITY_RANGES.items())
    judged = f"{list(JUDGED)}.exists(first, {{}}.startsWith(first))"
    mapped = "self.annotationKeysMapping[key]"
    return (
        CelRule(
            f"!has(self.annotations) || self.annotations.all(key, !{judged.format('key')})",
            f"the API server may refuse pods with annotations that begin with {', '.join(JUDGED)}",
            "annotations",
        ),
        CelRule(
            f"!has(self.annotations) || !('{DELETION_COST}' in self.annotations)"
            f" || self.annotations['{DELETION_COST}'].matches('{COST}')",
            f"{DELETION_COST} is a whole number of at most nine digits",
            "annotations",
        ),
        CelRule(
            "!has(self.annotationKeysMapping) || self.annotationKeysMapping.all(key,"
            f" {mapped} != '{DELETION_COST}' && !{judged.format(mapped)})",
            "the API server may refuse pods with a value of another annotation under this name",
            "annotationKeysMapping",
        ),
        CelRule(
            "has(self.selector) || has(self.namespaceSelector)",
            "selector or namespaceSelector is required; an empty one, {}, selects everything",
        ),
        CelRule(
            f"!has(self.tier) || !has(self.qosClass) || {' || '.join(pairs)}",
            f"the QoS class is not one of the tier; allowed are {allowed}",
            "qosClass",
        ),
        CelRule(
            f"!has(self.tier) || !has(self.priorityClass) || {' || '.join(bands)}",
            f"the priority is not one of the tier; allowed are {ranges}",
            "priorityClass.value",
        ),
    )


class ClusterColocationProfileSpec(Part):
    """Pods with the labels of `selector`, in namespaces with those of `namespaceSelector`, change when they are
    created; one of both is required, and an empty one selects everything. Profiles apply in the order of their names.

    What is left out stays as the pod has it.
    """

    RULES: ClassVar[tuple[CelRule, ...]] = _rules()

    selector: LabelSelector | None = Field(None, description="pods with these labels")
    namespace_selector: LabelSelector | None = Field(None, description="pods of namespaces with these labels")
    probability: Annotated[int, Field(ge=0, le=100)] = Field(
        100, description="percent of the selected workloads; all pods of one controller change, or none"
    )
    labels: Labels = Field(default_factory=dict, description="labels that the pods get")
    annotations: Annotations = Field(default_factory=dict, description="annotations that the pods get")
    label_keys_mapping: KeysMapping = Field(
        default_factory=dict, description="from a label of the pod to another that gets its value; a missing one none"
    )
    annotation_keys_mapping: KeysMapping = Field(default_factory=dict, description="the same for annotations")
    tier: Literal["prod", "mid", "batch", "free"] | None = Field(None, description="label slackwater.io/tier")
    qos_class: Literal["LSE", "LSR", "LS", "BE", "SYSTEM"] | None = Field(None, description="label slackwater.io/qos")
    priority_class: PriorityClass | None = Field(None, description="priority class that the pods get")
    resource_domain: ResourceDomain = Field(
        "slackwater.io",
        description="of the resources that CPU and memory of tier batch or mid are rewritten to; none: they stay",
    )
    scheduler_name: DnsName | None = Field(None, description="scheduler that places the pods")
    limited_namespaces: Literal["skip", "keep-resources", "apply"] = Field(
        "skip",
        description="pods of namespaces with a ResourceQuota or LimitRange of CPU or memory, also of a tier, which may"
        " refuse them with other resources: skip: they stay; keep-resources: only their resources stay;"
        " apply: they change like others",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.selector is None and self.namespace_selector is None:
            raise ValueError("selector or namespaceSelector is required; an empty one, {}, selects everything")
        targets = self.annotation_keys_mapping.values()
        for key in (*self.annotations, *targets):
            if key.startswith(JUDGED) or (key == DELETION_COST and key in targets):
                raise ValueError(f"the API server may refuse pods with the annotation {key} of a profile")
        if not re.fullmatch(COST, self.annotations.get(DELETION_COST, "0")):
            raise ValueError(f"annotations: {DELETION_COST} is a whole number of at most nine digits")
        if self.tier is None:
            return self
        tier = Tier(self.tier)
        if self.qos_class is not None and self.qos_class not in QOS_OF_TIERS[tier]:
            raise ValueError(
                f"qosClass {self.qos_class} is not one of {tier}; allowed: {', '.join(QOS_OF_TIERS[tier])}"
            )
        band = PRIORITY_RANGES[tier]
        if self.priority_class is not None and self.priority_class.value not in band:
            raise ValueError(
                f"priorityClass.value {self.priority_class.value} is not one of {tier};"
                f" allowed: {band.start} to {band.stop - 1}"
            )
        return self

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels that a pod gets, with those of tier and QoS class."""
        own = {"slackwater.io/tier": self.tier, "slackwater.io/qos": self.qos_class}
        return {**self.labels, **{key: value for key, value in own.items() if value is not None}}

    @property
    def rewritten_tier(self) -> Tier | None:
        """The tier whose resources replace CPU and memory; None: they stay."""
        tier = None if self.tier is None else Tier(self.tier)
        return tier if self.resource_domain != "none" and tier in REWRITTEN else None


class ClusterColocationProfile(Resource):
    """The document."""

    kind: Literal["ClusterColocationProfile"] = "ClusterColocationProfile"
    spec: ClusterColocationProfileSpec
