"""Performs the plans of a search, each in a forked process of its own, some at a time."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.world.plan import Plan
from tests.world.run import Child, Outcome, perform

Perform = Callable[[Plan], Outcome]


@dataclass(slots=True)
class ForkedRunner:
    """tests.world.shrinking.shrinker.Runner: bounded by tries and by seconds of the machine's clock."""

    most_tries: int
    most_seconds: float
    workers: int = 2
    perform: Perform = perform
    tries: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def is_spent(self) -> bool:
        return self.tries >= self.most_tries or time.monotonic() - self.begun > self.most_seconds

    def first_failing(self, plans: Iterator[Plan], invariant: str) -> tuple[Plan, Outcome] | None:
        running: dict[int, tuple[Plan, Child[Outcome]]] = {}
        fails: dict[int, Outcome | None] = {}
        begun = decided = 0
        with selectors.DefaultSelector() as selector:
            while True:
                while len(running) < self.workers and not self.is_spent and not any(fails.values()):
                    plan = next(plans, None)
                    if plan is None:
                        break
                    child = Child(lambda plan=plan: self.perform(plan))  # type: ignore[misc]
                    running[begun] = plan, child
                    selector.register(child.pipe, selectors.EVENT_READ, begun)
                    begun, self.tries = begun + 1, self.tries + 1
                if not running:
                    return None
                for key, _ in selector.select():
                    if running[key.data][1].reads():
                        continue
                    selector.unregister(key.fileobj)
                    fails[key.data] = self._failure(running[key.data][1], invariant)
                    if fails[key.data] is None:
                        del running[key.data]
                while decided in fails and fails[decided] is None:
                    decided += 1
                outcome = fails.get(decided)
                if outcome is not None:
                    plan = running.pop(decided)[0]
                    for number, (_, child) in running.items():
                        if number not in fails:
                            child.cancel()
                    return plan, outcome

    @staticmethod
    def _failure(child: Child[Outcome], invariant: str) -> Outcome | None:
        """Returns the outcome if it violates the invariant. A run that breaks down is none of a smaller plan."""
        try:
            outcome = child.result()
        except (RuntimeError, TimeoutError):
            return None
        return outcome if outcome.failure and outcome.invariant == invariant else None
