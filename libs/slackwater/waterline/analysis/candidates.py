"""Selects the pods that may be throttled or evicted. Some are protected, whatever a policy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import ComparatorChain
from slackwater.waterline.policies.podqos import PodQosSpec

PROTECTED_TIERS: Final = frozenset({Tier.PROD, Tier.MID})
OWNERS_OF_CPUS: Final = frozenset({QoSClass.LSE, QoSClass.LSR})


class Exposure(Struct, frozen=True, gc=False):
    """The actions that policies allow on one pod, or why none is allowed."""

    pod: PodUse
    actions: frozenset[str]
    protected_because: str = ""


def protection(
    pod: PodUse, named: frozenset[QoSClass] = frozenset(), tiers: frozenset[Tier] = PROTECTED_TIERS
) -> str | None:
    """Returns why a pod is protected, or None. `named`: QoS classes that its policies name."""
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
    """All pods of one cycle by uid, and their orders, each computed once. A chain is identified by
    its comparators, because two chains of one name may differ.
    """

    def __init__(self, by_uid: Mapping[str, Exposure]) -> None:
        self.by_uid = by_uid
        self._ranked: dict[ComparatorChain, list[tuple[tuple[Number, ...], Exposure]]] = {}

    def ranked(self, chain: ComparatorChain) -> list[tuple[tuple[Number, ...], Exposure]]:
        """Returns the pods that any action may affect, in the order of a chain, with the deciding
        keys.
        """
        found = self._ranked.get(chain)
        if found is None:
            there = [one for one in self.by_uid.values() if one.actions]
            found = [(keys, there[index]) for keys, index in chain.places([one.pod for one in there])]
            self._ranked[chain] = found
        return found


class _Allowing:
    """The actions that policies allow, cached for pods equal in all scope attributes; labels are
    checked each time.
    """

    def __init__(self, policies: Sequence[PodQosSpec]) -> None:
        self._by_label = [one for one in policies if one.label_selector is not None]
        self._by_scope = [one for one in policies if one.label_selector is None]
        self._known: dict[tuple[QoSClass | None, int | None, str], frozenset[str] | None] = {}

    def actions(self, pod: PodUse) -> frozenset[str] | None:
        """Returns the allowed actions; None: no policy names the pod."""
        scope = pod.qos, pod.priority, pod.namespace
        found = self._known[scope] if scope in self._known else self._known.setdefault(scope, _of(self._by_scope, pod))
        if not self._by_label:
            return found
        more = _of(self._by_label, pod)
        return more if found is None else found if more is None else found | more


def _of(policies: Sequence[PodQosSpec], pod: PodUse) -> frozenset[str] | None:
    """Returns the union of the policies' actions. A pod with exclusive CPUs is covered only by
    policies that name its class.
    """
    owns = pod.qos in OWNERS_OF_CPUS
    actions: frozenset[str] | None = None
    for one in policies:
        if one.matches(pod) and (not owns or pod.qos in one.named_classes):
            actions = one.actions if actions is None else actions | one.actions
    return actions


def expose(pods: Sequence[PodUse], policies: Sequence[PodQosSpec], tiers: frozenset[Tier] = PROTECTED_TIERS) -> Exposed:
    """Returns the exposure of every pod; the policies of a pod add up."""
    allowing = _Allowing(policies)
    return Exposed({pod.uid: _exposure(pod, allowing, tiers) for pod in pods})


def _exposure(pod: PodUse, allowing: _Allowing, tiers: frozenset[Tier]) -> Exposure:
    why = protection(pod, OWNERS_OF_CPUS, tiers)
    if why is not None:
        return Exposure(pod, frozenset(), why)
    actions = allowing.actions(pod)
    if actions is None:
        return Exposure(pod, frozenset(), protection(pod, frozenset(), tiers) or "no PodQOS names it")
    return Exposure(pod, actions)
