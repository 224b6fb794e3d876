"""Decays an offer with the age of its usage: full, then linearly less, then nothing."""

from __future__ import annotations

from slackwater.decisions.record import Term
from slackwater.offers.batch import system_is_unknown
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy


def remaining_share(snapshot: NodeSnapshot, strategy: Strategy) -> float:
    """Returns 1 up to `decay_from_seconds`, 0 from `decay_to_seconds` on or for a lost node, linear in between."""
    if snapshot.lost or snapshot.age_seconds >= strategy.decay_to_seconds:
        return 0.0
    if snapshot.age_seconds <= strategy.decay_from_seconds:
        return 1.0
    span = strategy.decay_to_seconds - strategy.decay_from_seconds
    return (strategy.decay_to_seconds - snapshot.age_seconds) / span


def degraded_because(snapshot: NodeSnapshot, strategy: Strategy) -> str | None:
    """Returns why the offer is below the one for complete and fresh inputs; None if it is not."""
    if snapshot.lost:
        return "node is lost"
    if remaining_share(snapshot, strategy) < 1:
        return "usage is old" if snapshot.is_whole else "usage is incomplete"
    if system_is_unknown(snapshot):
        return "system usage was never measured"
    return None


def aged(offered: int, snapshot: NodeSnapshot, strategy: Strategy) -> tuple[int, tuple[Term, ...]]:
    """Returns the offer after ageing, cut to a whole unit, and the term for the difference, if there is one."""
    left = int(offered * remaining_share(snapshot, strategy))
    if left == offered:
        return offered, ()
    if snapshot.lost:
        return left, (Term(name="degraded", value=left - offered, note="node is lost", input="lost"),)
    age = f"{snapshot.age_seconds:.0f} s"
    note = f"usage is {age} old" if snapshot.is_whole else f"usage was last complete {age} ago"
    return left, (Term(name="degraded", value=left - offered, note=note, input="usage_age"),)


def offer_in_quarantine(reason: str) -> int:
    """Returns the offer of a node whose state cannot be read, stored or computed: nothing, whatever the reason."""
    return 0
