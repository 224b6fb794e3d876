"""Why nodes offer no CPU to batch, counted by reason. Pure; the words of console, REST and command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from slackwater.model.plurals import counted


class NoOffer(StrEnum):
    """Reasons, as REST names them."""

    SILENT = "silent"
    NO_PREDICTION = "no_prediction"
    DEGRADED = "degraded"
    DISABLED = "disabled"
    NO_SLACK = "no_slack"


WORDS: Final = {
    NoOffer.SILENT: "silent",
    NoOffer.NO_PREDICTION: "without a prediction yet",
    NoOffer.DEGRADED: "degraded, because usage is old or missing",
    NoOffer.DISABLED: "disabled by strategy",
    NoOffer.NO_SLACK: "without slack above prod and reserve",
}


def no_offer_reason(
    *, fresh: bool, batch_milli: int | None, degraded: str | None, disabled: bool = False
) -> NoOffer | None:
    """Returns why a node offers no CPU; None if it offers some. `batch_milli` is None without an offer."""
    if batch_milli is not None and batch_milli > 0:
        return None
    if not fresh:
        return NoOffer.SILENT
    if batch_milli is None:
        return NoOffer.NO_PREDICTION
    if degraded is not None:
        return NoOffer.DEGRADED
    return NoOffer.DISABLED if disabled else NoOffer.NO_SLACK


def no_offer_line(reasons: Iterable[NoOffer | None]) -> str:
    """Returns one line with the nodes by reason, the most frequent first; empty if a node offers CPU, or none is known.

    `reasons` has one entry per node.
    """
    found = list(reasons)
    if not found or None in found:
        return ""
    counts = Counter(reason for reason in found if reason is not None)
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], list(NoOffer).index(entry[0])))
    return "no CPU is offered: " + ", ".join(f"{counted(count, 'node')} {WORDS[why]}" for why, count in ranked)
