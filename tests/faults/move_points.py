"""Every crash point of a move, from the code's own lists: the transitions of a job, the events that the services read
and publish, the states of plans, and what an agent keeps of evictions and starts. A new one without a story that comes
by it fails tests/faults/test_moves_killed.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.faults.move_halts import NEW, declared_point, kept_point, plan_point, publish_point, transition_point

from slackwater.descheduler.domain.kept_plans import PlanState
from slackwater.events.move_proposed import MoveProposed
from slackwater.model.start_states import StartState
from slackwater.podmigration.jobs import MigrationStep, MoveOutcome


class Story(StrEnum):
    """What happens to a pod unless something is killed."""

    MOVED = "moved"
    """A cycle of the descheduler proposes it."""
    PLANNED = "planned"
    """An operator makes a plan and applies it."""
    RETURNED = "returned"
    """The start on the other node fails."""
    HERE = "here"
    """No other node has the workload file."""
    EVICTED = "evicted"
    """EvictDirectly."""
    DRY = "dry"
    """A dry run."""
    GUARDED = "guarded"
    """The agent refuses the eviction, for good."""
    UNWRITTEN = "unwritten"
    """The agent's disk is full: the eviction does not begin, and the job is deleted."""
    LATE = "late"
    """The job is deleted while the pod is ending."""
    UNSTARTED = "unstarted"
    """The job is deleted while it waits."""


OUTCOMES: Final[Mapping[Story, frozenset[MoveOutcome]]] = {
    Story.MOVED: frozenset({MoveOutcome.MOVED}),
    Story.PLANNED: frozenset({MoveOutcome.MOVED}),
    Story.RETURNED: frozenset({MoveOutcome.RETURNED}),
    Story.HERE: frozenset({MoveOutcome.OLD_POD_RUNS}),
    Story.EVICTED: frozenset({MoveOutcome.EVICTED}),
    Story.DRY: frozenset({MoveOutcome.OLD_POD_RUNS}),
    Story.GUARDED: frozenset({MoveOutcome.OLD_POD_RUNS}),
    Story.UNWRITTEN: frozenset({MoveOutcome.OLD_POD_RUNS}),
    Story.LATE: frozenset({MoveOutcome.MOVED}),
    Story.UNSTARTED: frozenset({MoveOutcome.OLD_POD_RUNS}),
}
"""How a job may end: a kill changes nothing of it, because each process goes on where it was."""
DEGRADED_POINTS: Final = {
    ("agent stores start starting after", "agent"): MoveOutcome.RETURNED,
    ("agent launches before", "agent"): MoveOutcome.RETURNED,
}
"""Point and victim: an agent that dies between its record of a start and the launch does not know whether it launched;
it answers that the pod is not there, and the workload goes back."""
PODS: Final[Mapping[MoveOutcome, int]] = {
    MoveOutcome.MOVED: 1,
    MoveOutcome.RETURNED: 1,
    MoveOutcome.OLD_POD_RUNS: 1,
    MoveOutcome.EVICTED: 0,
}
"""How many pods of the workload run afterwards."""

_S = MigrationStep
TRANSITION_STORIES: Final[Mapping[tuple[str, str], Story]] = {
    (NEW, _S.WAITING): Story.MOVED,
    (_S.WAITING, _S.ADMITTED): Story.MOVED,
    (_S.WAITING, _S.ENDED): Story.UNSTARTED,
    (_S.ADMITTED, _S.RESERVING): Story.MOVED,
    (_S.ADMITTED, _S.EVICTING): Story.EVICTED,
    (_S.ADMITTED, _S.ENDED): Story.DRY,
    (_S.RESERVING, _S.EVICTING): Story.MOVED,
    (_S.RESERVING, _S.ENDED): Story.HERE,
    (_S.EVICTING, _S.REPLACING): Story.MOVED,
    (_S.EVICTING, _S.ENDED): Story.GUARDED,
    (_S.EVICTING, _S.WITHDRAWING): Story.UNWRITTEN,
    (_S.WITHDRAWING, _S.ENDED): Story.UNWRITTEN,
    (_S.WITHDRAWING, _S.REPLACING): Story.LATE,
    (_S.REPLACING, _S.REPLACING): Story.RETURNED,
    (_S.REPLACING, _S.ENDED): Story.MOVED,
}
KEPT_STORIES: Final[Mapping[str, Story]] = {
    "move.proposed": Story.MOVED,
    "reclaim.answered": Story.MOVED,
    "eviction.completed": Story.MOVED,
}
"""Of what migration reads by a durable consumer."""
PUBLISHED_STORIES: Final[Mapping[tuple[str, str], Story]] = {
    ("descheduler", "move.proposed"): Story.MOVED,
    ("migration", "migration.changed"): Story.MOVED,
    ("migration", "node.reserved"): Story.MOVED,
    ("migration", "reclaim.requested"): Story.MOVED,
}
NOT_OF_MOVES: Final = frozenset({"decision.recorded", "health.reported", "resource.changed", "state.quarantined"})
"""Published by every service."""
DECLARED_STORIES: Final[Mapping[str, Story]] = {"evictions": Story.MOVED, "starts": Story.MOVED}
"""Parts of the intents that migration declares (intent.declared)."""
PLAN_STORIES: Final[Mapping[PlanState, Story]] = {
    PlanState.RECOMMENDED: Story.PLANNED,
    PlanState.APPLYING: Story.PLANNED,
    PlanState.APPLIED: Story.PLANNED,
}
PLANS_LEFT_OUT: Final[Mapping[PlanState, str]] = {
    PlanState.STALE: "nothing of it is moved",
    PlanState.MEASURED: "a minute after the last job has ended: nothing is moved any more",
}
STARTS_LEFT_OUT: Final[Mapping[StartState, str]] = {
    StartState.REFUSED: "kept and answered as a start that failed before it was launched (story returned)",
    StartState.EXPIRED: "the same, two minutes later",
}
AGENT_STORIES: Final[Mapping[str, Story]] = {
    "agent stores eviction begun": Story.MOVED,
    "agent signals": Story.MOVED,
    "agent stores eviction answered": Story.MOVED,
    "agent publishes eviction.completed": Story.MOVED,
    "agent stores eviction published": Story.MOVED,
    "agent stores start starting": Story.MOVED,
    "agent launches": Story.MOVED,
    "agent stores start ready": Story.MOVED,
    "agent publishes intent.observed": Story.MOVED,
    "agent stores start failed": Story.RETURNED,
}
VICTIMS: Final = ("migration", "descheduler", "agent")


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """`victim` is killed while the process that comes by stands before or after the point."""

    name: str
    story: Story
    victim: str

    @property
    def outcomes(self) -> frozenset[MoveOutcome]:
        """How the job may end."""
        degraded = DEGRADED_POINTS.get((self.name, self.victim))
        return OUTCOMES[self.story] if degraded is None else frozenset({degraded})

    @property
    def needs_descheduler(self) -> bool:
        """Whether it is killed, or comes by, or has to propose the move."""
        proposes = self.story is Story.PLANNED or self.name.startswith(kept_point(MoveProposed.TYPE))
        return proposes or "descheduler" in (self.victim, self.name.split()[0])

    def __str__(self) -> str:
        return f"{self.name}: {self.victim}"


def named_points() -> Mapping[str, Story]:
    """Every point without `before` and `after`, and the story that comes by it."""
    return {
        **{transition_point(*steps): story for steps, story in TRANSITION_STORIES.items()},
        **{kept_point(event): story for event, story in KEPT_STORIES.items()},
        **{publish_point(*event): story for event, story in PUBLISHED_STORIES.items()},
        **{declared_point(what): story for what, story in DECLARED_STORIES.items()},
        **{plan_point(state): story for state, story in PLAN_STORIES.items()},
        **AGENT_STORIES,
    }


def crash_points() -> Sequence[CrashPoint]:
    """Before a point the process that comes by is killed: for the others nothing has happened. After it each of the
    three is killed in turn."""
    found = []
    for name, story in named_points().items():
        found.append(CrashPoint(f"{name} before", story, name.split()[0]))
        found += [CrashPoint(f"{name} after", story, victim) for victim in VICTIMS]
    return found
