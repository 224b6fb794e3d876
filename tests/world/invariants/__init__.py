"""Invariants of the world: what must hold at every step, and what must hold at rest.

A service's invariants are modules of the folder of its name; each module lists its classes in INVARIANTS, and the world
finds them. `on_step` is called with the steps of the kinds in KINDS, so it costs nothing for others; it must be cheap.
`at_rest` is called when all faults are over and the quiet time has passed. Both fail the run by `raise Violation(...)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, Final

from tests.world.plan import Plan
from tests.world.trace import Kind, Step
from tests.world.world import World


class Violation(AssertionError):
    """An invariant does not hold; the text says what was seen and what was expected."""


class Invariant:
    """One invariant over one run. State that it needs to remember belongs to the instance."""

    NAME: ClassVar[str]
    KINDS: ClassVar[tuple[Kind, ...]] = ()

    def __init__(self, world: World) -> None:
        self.world = world

    def on_step(self, step: Step) -> None:
        """Check one step. Raises Violation."""

    def at_rest(self) -> None:
        """Check the world at rest. Raises Violation."""


@cache
def all_invariants() -> Sequence[type[Invariant]]:
    """Every invariant of every folder, by name."""
    found: list[type[Invariant]] = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        found += getattr(importlib.import_module(module.name), "INVARIANTS", ())
    return tuple(sorted(found, key=lambda invariant: invariant.NAME))


OF_SCRIPTED_NODES: Final = (
    *("core.at_rest.", "core.documents.", "core.fencing.", "core.ledger.", "core.logs.", "core.publish_order."),
    *("decisions.records.", "quota."),
)
"""What holds in a world of quotas alone: all else judges agents and the services that follow them."""


OF_MOVES: Final = (*OF_SCRIPTED_NODES[:-1], "migration.", "descheduler.")
"""What holds in a world of moves."""
OF_MOVES_ALONE: Final = OF_MOVES[-2:]


def invariants_of(plan: Plan) -> Sequence[type[Invariant]]:
    """Those that hold in this plan's world."""
    if plan.move_nodes:
        return _of(OF_MOVES)
    if plan.scripted_nodes:
        return _of(OF_SCRIPTED_NODES)
    without = _of(OF_MOVES_ALONE)
    return [invariant for invariant in all_invariants() if invariant not in without]


def _of(parts: Sequence[str]) -> Sequence[type[Invariant]]:
    names = tuple(f"{__name__}.{name}" for name in parts)
    return [invariant for invariant in all_invariants() if f"{invariant.__module__}.".startswith(names)]
