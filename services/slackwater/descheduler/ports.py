"""What the use cases need: cycles and moves in one transaction, and meters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from slackwater.descheduler.domain.cycle_state import ProfileCycle, WorkloadMove
from slackwater.descheduler.domain.kept_plans import KeptPlan, PlanState
from slackwater.events.envelope import Event

CYCLES: Final = "profile_cycles"
MOVES: Final = "workload_moves"
PLANS: Final = "move_plans"
"""Tables, as the quarantine names them."""


class CycleUnit(Protocol):
    """One transaction."""

    async def cycle(self, profile: str) -> ProfileCycle:
        """Returns the last cycle of a profile; generation 0 if there was none."""
        ...

    async def moves(self) -> Sequence[WorkloadMove]:
        """Returns the moves that are kept."""
        ...

    async def save(self, cycle: ProfileCycle) -> None:
        """Write the cycle in its next generation. Raises Conflict if another was written since."""
        ...

    async def add_moves(self, moves: Sequence[WorkloadMove]) -> None:
        """Write moves; the later one of a pod holds."""
        ...

    async def drop(self, pod_uids: Collection[str], profiles: Collection[str]) -> None:
        """Delete moves and cycles."""
        ...

    async def plan(self, plan: str) -> KeptPlan | None:
        """Returns the plan of an id; None if none is kept."""
        ...

    async def plans(self, state: PlanState | None = None) -> Sequence[KeptPlan]:
        """Returns the kept plans, or those in one state, the oldest first."""
        ...

    async def save_plan(self, plan: KeptPlan) -> None:
        """Write the plan in its next generation. Raises Conflict if another was written since."""
        ...

    async def drop_plans(self, plans: Collection[str]) -> None:
        """Delete plans."""
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Publish when the unit commits."""
        ...


class CycleStore(Protocol):
    """Where cycles and moves are kept."""

    def decide(self) -> AbstractAsyncContextManager[CycleUnit]:
        """Begin a transaction of the deciding replica: refused when another one has taken over. Raises Unavailable."""
        ...

    def observe(self) -> AbstractAsyncContextManager[CycleUnit]:
        """Begin a transaction of any replica. Raises Unavailable."""
        ...
