"""The search for a smaller plan. It performs nothing itself: a runner tells what a plan's run violates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tests.world.plan import Plan
from tests.world.run import Outcome
from tests.world.shrinking.candidates import PASSES, ROUGH_PASSES, Candidates, cut_after, other_orders

Report = Callable[[str], None]
Passes = Sequence[tuple[str, Candidates]]
ROUGH: Passes = tuple((name, partial(other_orders, candidates=of)) for name, of in PASSES if name in ROUGH_PASSES)


class Runner(Protocol):
    """Performs plans, some at a time. `tries` counts those that it has begun."""

    @property
    def tries(self) -> int: ...

    @property
    def is_spent(self) -> bool:
        """Whether no more plans may be performed."""

    def first_failing(self, plans: Iterator[Plan], invariant: str) -> tuple[Plan, Outcome] | None:
        """Returns the first of the plans, in their order, that violates the invariant; None if none does, or if the
        budget is spent before one is found."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """`outcome` is that of `plan`; `is_minimal` tells that no pass found anything smaller."""

    plan: Plan
    outcome: Outcome
    tries: int
    is_minimal: bool


def size(plan: Plan) -> str:
    """One line about how large a plan is."""
    parts = (
        f"{len(plan.faults)} faults",
        f"{len(plan.changes)} changes",
        f"{plan.nodes} nodes",
        f"{plan.replicas} replicas",
        f"{plan.clients} clients",
        f"{sum(map(len, plan.settings.values()))} settings",
        f"{plan.seconds:.0f} s",
    )
    return ", ".join(parts)


def shrink(plan: Plan, outcome: Outcome, runner: Runner, report: Report) -> Shrunk:
    """Returns the smallest plan found whose run violates the invariant that `plan` violates with `outcome`."""
    best = _Best(plan, outcome, runner, report)
    best.try_each("end", cut_after(plan, outcome.at))
    while not runner.is_spent and (best.improve(PASSES) or best.improve(ROUGH, under="other seeds")):
        best.try_each("end", cut_after(best.plan, best.outcome.at))
    return Shrunk(best.plan, best.outcome, runner.tries, is_minimal=not runner.is_spent)


@dataclass(slots=True)
class _Best:
    plan: Plan
    outcome: Outcome
    runner: Runner
    report: Report

    def improve(self, passes: Passes, under: str = "") -> bool:
        """Perform each pass as often as it makes the plan smaller. Returns whether one did."""
        improved = False
        for name, candidates in passes:
            while not self.runner.is_spent and self.try_each(f"{name} {under}".strip(), candidates(self.plan)):
                improved = True
        return improved

    def try_each(self, name: str, candidates: Iterator[Plan]) -> bool:
        """Take the first candidate that fails alike and differs. Returns False if there is none."""
        smaller = (candidate for candidate in candidates if candidate != self.plan)
        found = self.runner.first_failing(smaller, self.outcome.invariant)
        if found is None:
            return False
        self.plan, self.outcome = found
        self.report(f"try {self.runner.tries} ({name}): {size(self.plan)}; fails at {self.outcome.at:.1f} s")
        return True
