"""CPU weights of pods and tiers: by request (plain sharing) or by tier (prod before mid before the rest).

By tier and idle, batch and free run when no other tier wants the CPU: the kernel preempts them at once for a task that
wakes up in prod or mid, even if their group has just come back from a quota with its history reset (decision 0094).
A tier in which a pod is in its grace period weighs as much as mid meanwhile: a fifth of what it and prod use. Scheduled
as idle beside a busy machine, the pod would not write its checkpoint in time.
The v1/v2 conversion is the one Kubernetes uses (KEP-2254): linear between [2, 262144] and [1, 10000].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

IDLE_SHARES = 0
"""Below every weight: scheduled as idle where the kernel can (cpu.idle, 5.15 and later), else the smallest weight."""
MIN_SHARES = 2
MAX_SHARES = 262_144
SHARES_PER_CPU = 1024


class Policy(StrEnum):
    """The same values as in `intent.declared`."""

    BY_REQUEST = "by-request"
    BY_TIER = "by-tier"
    BY_TIER_IDLE = "by-tier-idle"


ProtectingWeights = Literal["by-tier", "by-tier-idle"]
"""The policies that put prod first, as in `usage.reported`."""


@dataclass(frozen=True, slots=True)
class Weights:
    """cpu.shares by pod uid and by tier; a tier may have IDLE_SHARES."""

    pods: Mapping[str, int]
    tiers: Mapping[Tier, int]


def shares_of_request(request_milli: int) -> int:
    """cpu.shares of a request in milli-cores, within what the kernel accepts."""
    return _bounded(request_milli * SHARES_PER_CPU // 1000)


def weigh(pods: Sequence[Pod], policy: Policy, ending: Collection[str] = ()) -> Weights:
    """Shares of all pods and all tiers under one policy. `ending` are the uids of pods in their grace period."""
    by_pod = {pod.uid: shares_of_request(pod.request.cpu_milli) for pod in pods}
    sums = {tier: sum(by_pod[pod.uid] for pod in pods if pod.tier is tier) for tier in Tier}
    if policy is Policy.BY_REQUEST:
        return Weights(by_pod, {tier: _bounded(total) for tier, total in sums.items()})
    prod = _bounded(max(SHARES_PER_CPU, sums[Tier.PROD]))
    last = IDLE_SHARES if policy is Policy.BY_TIER_IDLE else MIN_SHARES
    mid = _bounded(prod // 4)
    lower = {tier: mid if tier in tiers_with(pods, ending) else last for tier in (Tier.BATCH, Tier.FREE)}
    return Weights(by_pod, {Tier.PROD: prod, Tier.MID: mid, **lower})


def tiers_with(pods: Sequence[Pod], uids: Collection[str]) -> frozenset[Tier]:
    """The tiers of the pods with these uids."""
    return frozenset(pod.tier for pod in pods if pod.uid in uids) if uids else frozenset()


def protection_of(shares: Mapping[Tier, int]) -> ProtectingWeights | None:
    """How tiers with these shares, as the kernel has them, put prod first; None if they do not. Absent tiers are left
    out."""
    lower = [shares[tier] for tier in (Tier.BATCH, Tier.FREE) if tier in shares]
    if not lower or shares.get(Tier.PROD, IDLE_SHARES) <= MIN_SHARES or max(lower) > MIN_SHARES:
        return None
    return "by-tier-idle" if all(share == IDLE_SHARES for share in lower) else "by-tier"


def weight_of_shares(shares: int) -> int:
    """v2 cpu.weight of v1 cpu.shares."""
    return 1 + (_bounded(shares) - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def shares_of_weight(weight: int) -> int:
    """v1 cpu.shares of v2 cpu.weight; `weight_of_shares` of the result may be one lower (both floor)."""
    return (min(10_000, max(1, weight)) - 1) * (MAX_SHARES - MIN_SHARES) // 9999 + MIN_SHARES


def _bounded(shares: int) -> int:
    return min(MAX_SHARES, max(MIN_SHARES, shares))
