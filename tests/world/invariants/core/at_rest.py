"""At rest nothing grows and nothing changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

REST = "rest"
MOST_TURNS = 1
"""Of a file at rest: what the last surge still causes."""
MOST_WAITING = 20
"""Messages that may be on their way at any moment of an idle fleet."""


class NothingGrows(Invariant):
    """After the quiet time no outbox and no consumer holds more than what is on its way, and none grows."""

    NAME = "nothing grows at rest"
    KINDS: ClassVar = (Kind.PHASE,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._before: Mapping[str, int] = {}

    def on_step(self, step: Step) -> None:
        if step.subject == REST:
            self._before = self.world.queues()

    def at_rest(self) -> None:
        for name, waiting in self.world.queues().items():
            before = self._before.get(name, 0)
            if waiting > max(MOST_WAITING, before):
                raise Violation(f"{name} holds {waiting} messages; {before} at the begin of the rest")


def direction(before: str, after: str) -> int:
    """Returns 1 if a file's value rises, -1 if it falls, 0 if it stays. `max` is above every number."""
    first, second = amount_in(before), amount_in(after)
    return (second > first) - (second < first)


def amount_in(text: str) -> float:
    """The first number of a file's text, which a key may precede. `max` and -1 are infinite."""
    word = next((word for word in text.split() if not word.replace("_", "").isalpha() or word == "max"), "0")
    return math.inf if word in ("max", "-1") else float(word)


class NothingChanges(Invariant):
    """With constant load no limit goes up and down: at rest a file's value turns at most MOST_TURNS times."""

    NAME = "nothing changes at rest"
    KINDS: ClassVar = (Kind.PHASE, Kind.KNOB_WRITTEN)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rests = False
        self._moves: dict[str, list[int]] = {}

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.PHASE:
            self._rests = step.subject == REST and has_settled(self.world.plan)
        elif self._rests:
            moves = self._moves.setdefault(step.subject, [])
            moves.append(direction(str(step.detail["before"]), str(step.detail["after"])))
            turns = sum(one * other < 0 for one, other in pairwise(moves))
            if turns > MOST_TURNS:
                raise Violation(f"{step.subject} turned {turns} times with constant load")


class EverythingRuns(Invariant):
    """At rest every process of the plan runs."""

    NAME = "everything runs at rest"

    def at_rest(self) -> None:
        for name, place in self.world.places.items():
            if place.process is None or not place.process.is_running:
                raise Violation(f"{name} does not run")


INVARIANTS = (EverythingRuns, NothingGrows, NothingChanges)
