"""Who may be asked to give way. Some never are, whatever a policy says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.podqos import PodQosSpec

PROTECTED_TIERS: Final = frozenset({Tier.PROD, Tier.MID})
OWNERS_OF_CPUS: Final = frozenset({QoSClass.LSE, QoSClass.LSR})


@dataclass(frozen=True, slots=True)
class Exposure:
    """What may happen to one pod: the actions that policies allow, or why none may."""

    pod: PodUse
    actions: frozenset[str]
    protected_because: str = ""


def protection(
    pod: PodUse, named: frozenset[QoSClass] = frozenset(), tiers: frozenset[Tier] = PROTECTED_TIERS
) -> str | None:
    """Why a pod is never touched, or None. `named`: QoS classes that its policies ask for by name."""
    reasons = (
        (pod.is_own, "it is the agent itself"),
        (pod.is_system or pod.qos is QoSClass.SYSTEM, "it belongs to the system"),
        (pod.is_static, "it is a static pod"),
        (pod.is_terminating, "it is already on its way out"),
        (not pod.is_active, "it has ended"),
        (pod.tier in tiers, f"tier {pod.tier} is protected"),
        (pod.qos in OWNERS_OF_CPUS and pod.qos not in named, f"QoS class {pod.qos} is protected unless it is named"),
    )
    return next((why for holds, why in reasons if holds), None)


def expose(
    pods: Sequence[PodUse], policies: Sequence[PodQosSpec], tiers: frozenset[Tier] = PROTECTED_TIERS
) -> dict[str, Exposure]:
    """By uid. The policies of a pod add up."""
    return {pod.uid: _exposure(pod, policies, tiers) for pod in pods}


def _exposure(pod: PodUse, policies: Sequence[PodQosSpec], tiers: frozenset[Tier]) -> Exposure:
    why = protection(pod, frozenset(OWNERS_OF_CPUS), tiers)
    if why is not None:
        return Exposure(pod, frozenset(), why)
    owns = pod.qos in OWNERS_OF_CPUS
    matching = [one for one in policies if one.matches(pod) and (not owns or pod.qos in one.named_classes)]
    if not matching:
        return Exposure(pod, frozenset(), protection(pod, frozenset(), tiers) or "no PodQOS names it")
    return Exposure(pod, frozenset(name for one in matching for name in one.allowed_actions))
