"""What an offer is still worth when the usage behind it grows old: all of it, then linearly less, then nothing."""

from __future__ import annotations

from slackwater.colocation.domain.batch import system_is_unknown
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.domain.strategy import Strategy
from slackwater.decisions.record import Term


def remaining_share(snapshot: NodeSnapshot, strategy: Strategy) -> float:
    """1 up to the first age, 0 from the second on and for a lost node, a straight line between."""
    if snapshot.lost or snapshot.age_seconds >= strategy.decay_to_seconds:
        return 0.0
    if snapshot.age_seconds <= strategy.decay_from_seconds:
        return 1.0
    span = strategy.decay_to_seconds - strategy.decay_from_seconds
    return (strategy.decay_to_seconds - snapshot.age_seconds) / span


def degraded_because(snapshot: NodeSnapshot, strategy: Strategy) -> str | None:
    """Why the offer is less than its inputs would justify if they were whole and fresh; None if they are."""
    if snapshot.lost:
        return "node is lost"
    if remaining_share(snapshot, strategy) < 1:
        return "usage is old" if snapshot.is_whole else "usage is incomplete"
    if system_is_unknown(snapshot):
        return "system usage was never measured"
    return None


def aged(offered: int, snapshot: NodeSnapshot, strategy: Strategy) -> tuple[int, tuple[Term, ...]]:
    """The offer after ageing, cut to a whole unit, and the term for what went, if anything did."""
    left = int(offered * remaining_share(snapshot, strategy))
    if left == offered:
        return offered, ()
    if snapshot.lost:
        return left, (Term(name="degraded", value=left - offered, note="node is lost", input="lost"),)
    age = f"{snapshot.age_seconds:.0f} s"
    note = f"usage is {age} old" if snapshot.is_whole else f"usage was whole {age} ago, and is not since then"
    return left, (Term(name="degraded", value=left - offered, note=note, input="usage_age"),)


def offer_in_quarantine(reason: str) -> int:
    """What a node offers whose state cannot be read, stored or computed: nothing, whatever the reason."""
    return 0
