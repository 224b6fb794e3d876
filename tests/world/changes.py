"""What operators do: documents that are put and deleted, some of which contradict each other or are refused."""

from __future__ import annotations

from random import Random

from tests.world.plan import Plan, PlannedChange


def planned_changes(rng: Random, plan: Plan) -> tuple[PlannedChange, ...]:
    """Returns the changes of a plan, in order."""
    return ()
