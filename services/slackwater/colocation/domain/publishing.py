"""From an offer to what a node's status says: CPUs in normalised units, less what others hand out of the same pot."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from slackwater.colocation.domain.snapshot import amount
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.model.records import record

MOST_RATIO = Decimal(5)


@record(frozen=True, slots=True)
class ThirdParty:
    """Another scheduler that hands out lower-tier resources of the node, and how much it has handed out already."""

    name: str
    tier: str
    allocated: Resources


@record(frozen=True, slots=True)
class Prepared:
    """What the status says (None: the resource is taken away) and what it was before others' parts were subtracted."""

    value: int | None
    origin: int


def prepared(
    offered: int | None, resource: str, third_parties: Iterable[ThirdParty] = (), ratio: Decimal = Decimal(1)
) -> Prepared:
    """One resource of the batch offer (of mid: without third parties and ratio). `ratio` makes CPUs of a fast node
    worth more; memory is the same everywhere."""
    if offered is None:
        return Prepared(None, 0)
    origin = normalised(offered, ratio) if resource == "cpu" else offered
    taken = sum(amount(each.allocated, resource) for each in third_parties if each.tier == "batch")
    return Prepared(max(0, origin - taken), origin)


def normalised(cpu_milli: int, ratio: Decimal) -> int:
    """Cut to a whole milli-core; a ratio of 1 or less changes nothing."""
    return int(cpu_milli * ratio) if ratio > 1 else cpu_milli


def parse_ratio(text: str) -> Decimal:
    """A CPU normalisation ratio, 1 to 5. Raises InvalidInput."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not ratio.is_finite() or not 1 <= ratio <= MOST_RATIO:
        raise InvalidInput(
            f"cpuNormalizationRatio: {text!r} is not allowed; a number from 1 to {MOST_RATIO}",
            field="cpuNormalizationRatio",
        )
    return ratio
