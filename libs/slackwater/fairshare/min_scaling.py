"""Mins that do not fit into their parent's total are scaled down.

Source: shared/facts/koordinator-quota-scheduling.md 1.5. All children of a level are scaled in one pass, in integers;
the peer scales a child when that child is refreshed, in floating point (docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.records import record


@record(frozen=True, slots=True)
class ScaledChild:
    """A child before scaling, in all of its dimensions."""

    name: str
    minimum: Mapping[str, int]
    scales: bool = True
    """False: its min is kept, and the others are scaled into what is left."""


def scale_mins(total: Mapping[str, int], children: Sequence[ScaledChild]) -> dict[str, dict[str, int]]:
    """Returns the min of each child in force, by its name.

    Only in dimensions that the total names and where the mins are more than it; the sum then never exceeds the total
    as far as the children that do not scale leave room. Rounded down, so less than one unit per child stays free.
    """
    scaled = {child.name: dict(child.minimum) for child in children}
    for resource, amount in total.items():
        fixed = sum(child.minimum.get(resource, 0) for child in children if not child.scales)
        flexible = sum(child.minimum.get(resource, 0) for child in children if child.scales)
        if fixed + flexible <= amount:
            continue
        left = max(amount - fixed, 0)
        for child in children:
            if child.scales and resource in child.minimum:
                whole = child.minimum[resource]
                scaled[child.name][resource] = left * whole // flexible if flexible > 0 else 0
    return scaled
