"""What every run would do first, done once before the first fork: imports, and compiled SQL statements.

Neither is part of a run's result. A short run in a child process says what there is to import and to compile.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.planner import plan_of
from tests.world.plan import OUTBOXES
from tests.world.run import Child, perform
from tests.world.swarm import draw

from slackwater.store.migrations import Schema

SEED, NODES, SECONDS = 2, 2, 60.0


@dataclass(frozen=True, slots=True)
class FirstUses:
    """Modules, and the statements of each service."""

    modules: tuple[str, ...]
    statements: dict[str, tuple[str, ...]]


def warm_up() -> None:
    """Import and compile what a short run has used first."""
    used = Child(_first_uses).result()
    for module in used.modules:
        importlib.import_module(module)
    for service, statements in used.statements.items():
        catalog = migrated(Schema.of(service)).catalog
        for statement in statements:
            plan_of(statement, catalog)


def _first_uses() -> FirstUses:
    before = set(sys.modules)
    perform(draw(SEED, nodes=NODES, seconds=SECONDS))
    modules = [name for name, module in sys.modules.items() if name not in before and hasattr(module, "__spec__")]
    plans = {service: migrated(Schema.of(service)).catalog.plans for service in OUTBOXES}
    return FirstUses(tuple(modules), {service: tuple(own) for service, own in plans.items()})
