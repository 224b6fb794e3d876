"""Who may be asked to give way. Some never are, whatever a policy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import Chain
from slackwater.waterline.policies.podqos import PodQosSpec

PROTECTED_TIERS: Final = frozenset({Tier.PROD, Tier.MID})
OWNERS_OF_CPUS: Final = frozenset({QoSClass.LSE, QoSClass.LSR})


@record(frozen=True, slots=True)
class Exposure:
    """What may happen to one pod: the actions that policies allow, or why none may."""

    pod: PodUse
    actions: frozenset[str]
    protected_because: str = ""


def protection(
    pod: PodUse, named: frozenset[QoSClass] = frozenset(), tiers: frozenset[Tier] = PROTECTED_TIERS
) -> str | None:
    """Why a pod is never touched, or None. `named`: QoS classes that its policies ask for by name."""
    if pod.is_own:
        return "it is the agent itself"
    if pod.is_system or pod.qos is QoSClass.SYSTEM:
        return "it belongs to the system"
    if pod.is_static:
        return "it is a static pod"
    if pod.is_terminating or not pod.is_active:
        return "it is already on its way out" if pod.is_terminating else "it has ended"
    if pod.tier in tiers:
        return f"tier {pod.tier} is protected"
    if pod.qos in OWNERS_OF_CPUS and pod.qos not in named:
        return f"QoS class {pod.qos} is protected unless it is named"
    return None


class Exposed:
    """All pods of one cycle by uid, and their orders: each is made once, however many demands use it. A chain is what
    it compares: two of the same name need not be the same."""

    def __init__(self, by_uid: Mapping[str, Exposure]) -> None:
        self.by_uid = by_uid
        self._ranked: dict[Chain, list[tuple[tuple[Number, ...], PodUse]]] = {}

    def ranked(self, chain: Chain) -> list[tuple[tuple[Number, ...], PodUse]]:
        """Those who may suffer anything, in the order of a chain, with the keys that decided."""
        found = self._ranked.get(chain)
        if found is None:
            found = chain.ranked(one.pod for one in self.by_uid.values() if one.actions)
            self._ranked[chain] = found
        return found


def expose(pods: Sequence[PodUse], policies: Sequence[PodQosSpec], tiers: frozenset[Tier] = PROTECTED_TIERS) -> Exposed:
    """The policies of a pod add up."""
    return Exposed({pod.uid: _exposure(pod, policies, tiers) for pod in pods})


def _exposure(pod: PodUse, policies: Sequence[PodQosSpec], tiers: frozenset[Tier]) -> Exposure:
    why = protection(pod, OWNERS_OF_CPUS, tiers)
    if why is not None:
        return Exposure(pod, frozenset(), why)
    owns = pod.qos in OWNERS_OF_CPUS
    actions: frozenset[str] | None = None
    for one in policies:
        if one.matches(pod) and (not owns or pod.qos in one.named_classes):
            actions = one.actions if actions is None else actions | one.actions
    if actions is None:
        return Exposure(pod, frozenset(), protection(pod, frozenset(), tiers) or "no PodQOS names it")
    return Exposure(pod, actions)
