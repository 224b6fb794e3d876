"""Room on a node that reservations keep for pods to come, as offers count it.

Of prod and mid it counts as a pod that is not measured yet: its whole request, so that batch gets less. Of mid and
batch it also comes off the published offer of its own tier. It comes off behind the gate, because it is exact and
known: it takes effect at once, and gives its amount back at once when its pod is bound, whose request then counts in
its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.snapshot import HIGH_TIERS, NodeSnapshot, PodInput, amount

UID_PREFIX: Final = "reservation/"
"""Of the pods that stand in for reservations: UIDs of pods hold no slash."""


@record(frozen=True, slots=True)
class KeptRoom:
    """What is left of one reservation, in the resources of its tier. `expires_s` None: until it is released."""

    name: str
    tier: str
    qos: str
    amount: Resources
    expires_s: float | None = None


def unexpired(kept: Iterable[KeptRoom], now_s: float) -> tuple[KeptRoom, ...]:
    """Returns the reservations that hold at `now_s`: one whose publisher is silent ends with its own expiry."""
    return tuple(room for room in kept if room.expires_s is None or now_s < room.expires_s)


def next_expiry(kept: Iterable[KeptRoom], now_s: float) -> float | None:
    """Returns when the next of them expires; None if none ever does."""
    return min((room.expires_s for room in unexpired(kept, now_s) if room.expires_s is not None), default=None)


def kept_pods(kept: Iterable[KeptRoom]) -> tuple[PodInput, ...]:
    """Returns the pods that stand in for reservations of prod and mid."""
    return tuple(
        PodInput(f"{UID_PREFIX}{room.name}", room.tier, room.qos, room.amount, None)
        for room in kept
        if room.tier in HIGH_TIERS
    )


def kept_of(tier: str, kept: Iterable[KeptRoom]) -> Resources | None:
    """Returns what the reservations of a tier hold together; None for nothing."""
    total = sum((room.amount for room in kept if room.tier == tier), Resources())
    return total if total != Resources() else None


def kept_amount(tier: str, resource: str, snapshot: NodeSnapshot) -> int:
    """Returns what reservations take off the offer of a tier."""
    kept = snapshot.kept_mid if tier == "mid" else snapshot.kept_batch
    return 0 if kept is None else amount(kept, resource)


def kept_terms(value: int, kept: int) -> Sequence[Term]:
    """Returns the term that takes `kept` off an offer of `value`; none where nothing is kept."""
    if kept <= 0:
        return ()
    return (Term(name="reservations", value=-min(value, kept), note="kept for pods to come", input="reservations"),)
