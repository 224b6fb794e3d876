"""All mutants."""

from __future__ import annotations

from collections.abc import Sequence

from tests.world.mutants.agent import AGENT
from tests.world.mutants.attacks import ATTACKS
from tests.world.mutants.console import CONSOLE
from tests.world.mutants.decisions import DECISIONS
from tests.world.mutants.mended import MENDED
from tests.world.mutants.moves import MOVES
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.quotas import QUOTAS
from tests.world.mutants.services import SERVICES
from tests.world.mutants.shared import SHARED

MUTANTS: Sequence[Mutant] = (*SHARED, *SERVICES, *AGENT, *DECISIONS, *CONSOLE, *QUOTAS, *MOVES, *ATTACKS, *MENDED)
