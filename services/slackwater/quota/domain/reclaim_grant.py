"""The grant to evict that a tree has of the Autonomies of its pools: asked for, granted, and used. Times are handed in.

Leave is asked for whole orders before any claim is told to end, so that no more claims end in any window than the
Autonomies allow; what is granted counts there whether it is used or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Final

from slackwater.fairshare.arbitration_plan import ClaimReclaim
from slackwater.fairshare.claims import QuotaClaim
from slackwater.model.records import record
from slackwater.quota.domain.running_pods import RunningPod

VALID_S: Final = 30.0
"""How long a grant may be used."""
UNANSWERED_S: Final = 10.0
REFUSED_S: Final = 30.0
"""Pauses before the next request, after one without an answer and after a refusal."""
EVICTED_AGAIN_S: Final = 600.0
"""A pod that was to be evicted and still runs is asked for again."""


@record(frozen=True, slots=True)
class EvictablePod:
    """A pod of a claim, and where it runs."""

    node: str
    uid: str
    name: str


@record(frozen=True, slots=True)
class ReclaimGrant:
    """Of one tree. `pods` are those that a grant was last asked for, by claim."""

    request: str = ""
    asked_s: float = 0.0
    is_answered: bool = False
    granted: Mapping[str, float] = field(default_factory=dict)
    """By claim, until when its pods may be asked to end."""
    pods: Mapping[str, tuple[EvictablePod, ...]] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    """Claims of which the last answer said that their pods may not be evicted yet."""
    because: str = ""
    """Why the rest waits."""
    again_s: float | None = None
    evicting: Mapping[str, float] = field(default_factory=dict)
    """By pod uid, when its eviction was requested."""

    def usable(self, now_s: float) -> frozenset[str]:
        """Returns the claims that may be told to end."""
        return frozenset(claim for claim, until_s in self.granted.items() if now_s <= until_s)

    def is_evicting(self, uid: str, now_s: float) -> bool:
        """Returns whether the eviction of a pod is under way."""
        return abs(now_s - self.evicting.get(uid, float("-inf"))) < EVICTED_AGAIN_S

    def may_ask(self, now_s: float) -> bool:
        """Returns whether it is time for a request. A time further ahead than the pause is of a clock that was wrong:
        waiting for it would hold all reclaims back."""
        if not self.request:
            return True
        pause = UNANSWERED_S if not self.is_answered else REFUSED_S if self.because else 0.0
        return abs(now_s - self.asked_s) >= pause

    def text(self) -> str:
        """Returns what the claims that wait for a grant wait for."""
        if not self.request:
            return ""
        if not self.is_answered:
            asked = f"the pool was asked at {_time(self.asked_s)} and has not answered"
            return f"{self.because}; {asked}" if self.because and self.refused else asked
        again = "" if self.again_s is None else f", again at {_time(self.again_s)}"
        return f"{self.because}{again}" if self.because else ""


@record(frozen=True, slots=True)
class WantedGrant:
    """One claim that would have to end. All of an order are granted, or none."""

    claim: str
    order: str
    pods: tuple[EvictablePod, ...]


def wanted_grant(
    reclaims: Sequence[ClaimReclaim],
    reclaiming: Mapping[str, QuotaClaim],
    pods: Mapping[str, Sequence[RunningPod]],
    grant: ReclaimGrant,
    now_s: float,
) -> Sequence[WantedGrant]:
    """Returns what a grant is needed for: claims that would be reclaimed, and pods of reclaimed claims that came later.

    `pods` are those of the claims concerned.
    """
    grant_by_claim: dict[str, WantedGrant] = {}
    usable = grant.usable(now_s)
    for reclaim in reclaims:
        order = reclaim.for_claim or reclaim.victim
        if reclaim.victim not in grant_by_claim and reclaim.victim not in usable:
            grant_by_claim[reclaim.victim] = WantedGrant(
                reclaim.victim, order, _evictable(pods.get(reclaim.victim, ()))
            )
    for name in sorted(reclaiming):
        late = _late(pods.get(name, ()), grant, now_s)
        if late and name not in usable and name not in grant_by_claim:
            grant_by_claim[name] = WantedGrant(name, name, late)
    return list(grant_by_claim.values())


def evictions_of(
    claims: Collection[str], pods: Mapping[str, Sequence[RunningPod]], grant: ReclaimGrant, now_s: float
) -> Iterator[tuple[str, EvictablePod]]:
    """Yields the pods of claims that have to end whose eviction was granted and is not under way."""
    usable = grant.usable(now_s)
    for claim in sorted(usable.intersection(claims)):
        running = {pod.uid for pod in pods.get(claim, ())}
        for pod in grant.pods.get(claim, ()):
            if pod.uid in running and not grant.is_evicting(pod.uid, now_s):
                yield claim, pod


def asked(grant: ReclaimGrant, request: str, wanted: Sequence[WantedGrant], now_s: float) -> ReclaimGrant:
    """Returns the grant after a request. What was granted before may still be used."""
    usable = grant.usable(now_s)
    still_usable = {claim: pods for claim, pods in grant.pods.items() if claim in usable}
    return replace(
        grant,
        request=request,
        asked_s=now_s,
        is_answered=False,
        granted={claim: until_s for claim, until_s in grant.granted.items() if claim in usable},
        pods={**still_usable, **{each.claim: each.pods for each in wanted}},
        refused=grant.refused.intersection(each.claim for each in wanted),
        evicting={uid: at for uid, at in grant.evicting.items() if abs(now_s - at) < EVICTED_AGAIN_S},
    )


def answered(
    grant: ReclaimGrant, request: str, granted: Collection[str], until_s: float, because: str, again_s: float | None
) -> ReclaimGrant:
    """Returns the grant after an answer; one to another request changes nothing."""
    if request != grant.request or grant.is_answered:
        return grant
    allowed = {**grant.granted, **dict.fromkeys(granted, until_s)}
    refused = frozenset(grant.pods.keys() - allowed.keys())
    return replace(grant, is_answered=True, granted=allowed, refused=refused, because=because, again_s=again_s)


def _time(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%SZ}"


def _evictable(pods: Sequence[RunningPod]) -> tuple[EvictablePod, ...]:
    return tuple(EvictablePod(pod.node, pod.uid, pod.name) for pod in sorted(pods, key=lambda pod: pod.uid))


def _late(pods: Sequence[RunningPod], grant: ReclaimGrant, now_s: float) -> tuple[EvictablePod, ...]:
    return _evictable([pod for pod in pods if not grant.is_evicting(pod.uid, now_s)])
