"""At rest nothing grows and nothing changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

REST = "rest"
MOST_TURNS = 1
"""Of a file at rest: what the last surge still causes."""
SHRINKS = 0.7
"""Damping halves the rises of limits; a swing that shrinks to this much or less each time ends soon."""
KEPT = 5
"""Extremes that the next turns are compared with."""
RARER = 1.5
"""Each relapse doubles the cool-down before memory limits rise again (concepts/waterlines.md), to which the time of the
way down comes: a swing that takes so many times as long each time ends soon."""
MEMORY_LIMITS = ("memory.high", "memory.limit_in_bytes")
OOM_CONTROL = "memory.oom_control"
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


def amount_in(text: str) -> float:
    """The first number of a file's text, which a key may precede. `max` and -1 are infinite."""
    word = next((word for word in text.split() if not word.replace("_", "").isalpha() or word == "max"), "0")
    return math.inf if word in ("max", "-1") else float(word)


@dataclass(slots=True)
class Swings:
    """How far a file's value went each time before it turned."""

    extremes: list[float] = field(default_factory=list)
    """The value at first, at each turn, and now."""
    shrinks_in_two: bool = False
    """Whether the way before the last turn was at most SHRINKS of the way two swings before it."""

    def turns(self, value: float) -> bool:
        """Adds a value. Returns whether it turned, unless what it went before the turn is at most SHRINKS of what it
        last went that way: a damped swing that comes to rest. A way to no limit and back counts as one turn, at its
        end: how far a fall from there goes says nothing."""
        one = self.extremes
        if not one or value == one[-1]:
            self.extremes = one or [value]
            return False
        if len(one) == 1 or (one[-1] > one[-2]) is (value > one[-1]):
            self.extremes = [*one[: max(1, len(one) - 1)], value]
            return False
        own, former, first = (abs(one[-1 - n] - one[-2 - n]) if len(one) >= n + 2 else 0.0 for n in (0, 2, 4))
        self.extremes = [*one[-KEPT:], value]
        self.shrinks_in_two = own < math.inf and own <= SHRINKS * first
        if own == math.inf:
            return one[-1] == math.inf
        return own > SHRINKS * former


def _limit_in(path: str, text: str) -> float:
    """The amount in a file's text. The killer is off exactly while a memory limit is in force: on is no limit."""
    amount = amount_in(text)
    return math.inf if path.endswith(OOM_CONTROL) and amount == 0 else amount


@dataclass(slots=True)
class TurnTimes:
    """When a file's value began to go the other way, its first change included."""

    value: float | None = None
    rises: bool | None = None
    times: tuple[float, ...] = ()

    def gets_rarer(self, at: float, value: float) -> bool:
        """Adds a value. Returns whether it turns, and RARER times as long after the last turn this way as that came
        after the one before."""
        before, self.value = self.value, value
        if before is None or value == before or (value > before) is self.rises:
            return False
        self.rises, self.times = value > before, (*self.times[-4:], at)
        if len(self.times) < 5:
            return False
        oldest, _, last, _, _ = self.times
        return at - last >= RARER * (last - oldest)


@dataclass(slots=True)
class Waits:
    """How long the memory limits of a node stayed low before they rose: from the last cut of any to the next rise. A
    relapse concerns all of them, so the times of one file say less."""

    fell_at: float | None = None
    waits: tuple[float, ...] = ()

    def change(self, at: float, *, falls: bool) -> None:
        if falls:
            self.fell_at = at
        elif self.fell_at is not None:
            self.waits, self.fell_at = (*self.waits[-1:], at - self.fell_at), None

    @property
    def get_longer(self) -> bool:
        """Whether the last one was RARER times as long as the one before."""
        return len(self.waits) == 2 and self.waits[1] >= RARER * self.waits[0]


class NothingChanges(Invariant):
    """With constant load no limit goes up and down: at rest a file's value turns at most MOST_TURNS times, not counting
    turns of a swing that gets smaller, or of memory limits that are tried ever more rarely. Raises of CPU limits are
    halved, but two may follow each other: such a swing gets rarer, and smaller in two."""

    NAME = "nothing changes at rest"
    KINDS: ClassVar = (Kind.PHASE, Kind.KNOB_WRITTEN)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rests = False
        self._swings: dict[str, Swings] = {}
        self._times: dict[str, TurnTimes] = {}
        self._waits: dict[str, Waits] = {}
        self._turns: Counter[str] = Counter()

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.PHASE:
            self._rests = step.subject == REST and has_settled(self.world.plan)
            return
        swings = self._swings.setdefault(step.subject, Swings())
        times = self._times.setdefault(step.subject, TurnTimes())
        amounts = [_limit_in(step.subject, str(step.detail[text])) for text in ("before", "after")]
        turns = [swings.turns(amount) for amount in amounts]
        is_rarer = [times.gets_rarer(step.at, amount) for amount in amounts][-1]
        ends_soon = is_rarer and swings.shrinks_in_two
        if step.subject.endswith(MEMORY_LIMITS):
            waits = self._waits.setdefault(step.subject.partition(":")[0], Waits())
            waits.change(step.at, falls=amounts[1] < amounts[0])
            ends_soon = is_rarer or waits.get_longer
        if self._rests and turns[-1] and not ends_soon:
            self._turns[step.subject] += 1
            if self._turns[step.subject] > MOST_TURNS:
                raise Violation(f"{step.subject} turned {self._turns[step.subject]} times with constant load")


class EverythingRuns(Invariant):
    """At rest every process of the plan runs."""

    NAME = "everything runs at rest"

    def at_rest(self) -> None:
        for name, place in self.world.places.items():
            if place.process is None or not place.process.is_running:
                raise Violation(f"{name} does not run")


INVARIANTS = (EverythingRuns, NothingGrows, NothingChanges)
