"""Converts an offer to the values of a node's status: normalised CPUs, less third parties' allocations."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.snapshot import amount

MOST_RATIO = Decimal(5)


@record(frozen=True, slots=True)
class ThirdParty:
    """Another scheduler that allocates lower-tier resources of the node, with its allocations."""

    name: str
    tier: str
    allocated: Resources


@record(frozen=True, slots=True)
class Prepared:
    """The value in the status (None: the resource is removed), and the value before third parties were subtracted."""

    value: int | None
    origin: int


def prepared(
    offered: int | None, resource: str, third_parties: Iterable[ThirdParty] = (), ratio: Decimal = Decimal(1)
) -> Prepared:
    """Converts one resource of the batch offer (for mid: without third parties and ratio).

    `ratio` raises the CPU of a fast node; memory is the same on every node.
    """
    if offered is None:
        return Prepared(None, 0)
    origin = normalised(offered, ratio) if resource == "cpu" else offered
    taken = sum(amount(party.allocated, resource) for party in third_parties if party.tier == "batch")
    return Prepared(max(0, origin - taken), origin)


def normalised(cpu_milli: int, ratio: Decimal) -> int:
    """Applies the ratio, cut to a whole milli-core; a ratio of 1 or less changes nothing."""
    return int(cpu_milli * ratio) if ratio > 1 else cpu_milli


def parse_ratio(text: str) -> Decimal:
    """Returns a CPU normalisation ratio, 1 to 5. Raises InvalidInput."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not ratio.is_finite() or not 1 <= ratio <= MOST_RATIO:
        raise InvalidInput(
            f"cpuNormalizationRatio: {text!r} is not allowed; it must be a number from 1 to {MOST_RATIO}",
            field="cpuNormalizationRatio",
        )
    return ratio
