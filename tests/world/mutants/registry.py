"""All mutants."""

from __future__ import annotations

from collections.abc import Sequence

from tests.world.mutants.agent import AGENT
from tests.world.mutants.attacks import ATTACKS
from tests.world.mutants.console import CONSOLE
from tests.world.mutants.decisions import DECISIONS
from tests.world.mutants.guards_at_edges import EDGE_GUARDS
from tests.world.mutants.guards_at_the_broker import BROKER_GUARDS
from tests.world.mutants.guards_of_input import INPUT_GUARDS
from tests.world.mutants.mended import MENDED
from tests.world.mutants.moves import MOVES
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.quotas import QUOTAS
from tests.world.mutants.rosters import ROSTERS
from tests.world.mutants.services import SERVICES
from tests.world.mutants.shared import SHARED

GUARDS: Sequence[Mutant] = (*INPUT_GUARDS, *EDGE_GUARDS, *BROKER_GUARDS)
MUTANTS: Sequence[Mutant] = (
    *SHARED,
    *SERVICES,
    *AGENT,
    *DECISIONS,
    *CONSOLE,
    *QUOTAS,
    *MOVES,
    *ATTACKS,
    *ROSTERS,
    *GUARDS,
    *MENDED,
)
