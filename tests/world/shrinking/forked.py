"""Performs the plans of a search, each in a forked process of its own, some at a time."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.world.plan import Plan
from tests.world.run import Child, Outcome, perform

Perform = Callable[[Plan], Outcome]
Failing = tuple[Plan, Outcome]
PROGRESS_SECONDS = 10.0


@dataclass(slots=True)
class ForkedRunner:
    """tests.world.shrinking.shrinker.Runner: bounded by tries and by seconds of the machine's clock."""

    most_tries: int
    most_seconds: float
    workers: int = 2
    perform: Perform = perform
    report: Callable[[str], None] = lambda _: None
    tries: int = 0
    begun: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)

    @property
    def is_spent(self) -> bool:
        return self.tries >= self.most_tries or time.monotonic() - self.begun > self.most_seconds

    def first_failing(self, plans: Iterator[Plan], invariant: str) -> Failing | None:
        search = _Search(plans, invariant)
        try:
            while True:
                while len(search.running) < self.workers and not self.is_spent and search.start(self.perform):
                    self.tries += 1
                if not search.running:
                    return search.first()
                search.wait()
                self._report_progress()
                first = search.first()
                if first is not None:
                    return first
        finally:
            search.cancel()

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now - self.reported >= PROGRESS_SECONDS:
            self.reported = now
            left = max(0.0, self.most_seconds - (now - self.begun))
            self.report(f"{self.tries} of at most {self.most_tries} tries, {left:.0f} s left")


class _Search:
    """Some plans of one search at a time. `results` has the ended ones by number; None for one that holds."""

    def __init__(self, plans: Iterator[Plan], invariant: str) -> None:
        self.running: dict[int, tuple[Plan, Child[Outcome]]] = {}
        self._plans = plans
        self._invariant = invariant
        self._results: dict[int, Failing | None] = {}
        self._begun = 0

    def start(self, perform: Perform) -> bool:
        """Begin the next plan. Returns False if there is none, or if one that has begun fails already."""
        plan = None if any(self._results.values()) else next(self._plans, None)
        if plan is None:
            return False
        self.running[self._begun] = plan, Child(partial(perform, plan))
        self._begun += 1
        return True

    def wait(self) -> None:
        """Wait until a run has something to read, and take the results of those that have ended."""
        with selectors.DefaultSelector() as selector:
            for number, (_, child) in self.running.items():
                selector.register(child.pipe, selectors.EVENT_READ, number)
            for key, _ in selector.select():
                plan, child = self.running[key.data]
                if not child.reads():
                    del self.running[key.data]
                    self._results[key.data] = self._failing(plan, child)

    def _failing(self, plan: Plan, child: Child[Outcome]) -> Failing | None:
        """A run that breaks down, or fails otherwise, is none of a smaller plan."""
        try:
            outcome = child.result()
        except (RuntimeError, TimeoutError):
            return None
        return (plan, outcome) if outcome.failure and outcome.invariant == self._invariant else None

    def first(self) -> Failing | None:
        """The first that fails, once all before it are known to hold."""
        for number in range(self._begun):
            if number not in self._results:
                return None
            if self._results[number] is not None:
                return self._results[number]
        return None

    def cancel(self) -> None:
        """End what still runs."""
        for _, child in self.running.values():
            child.cancel()
