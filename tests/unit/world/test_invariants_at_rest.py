"""Limits that turn at rest and errors in logs are found, and hold where time or a fault explains them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.invariants import Violation
from tests.world.invariants.core.at_rest import NothingChanges, Swings, TurnTimes, amount_in
from tests.world.invariants.core.logs import NoDefectIsLogged
from tests.world.machine.disk import Disk
from tests.world.plan import Plan
from tests.world.settling import has_settled
from tests.world.swarm import draw
from tests.world.trace import Kind, Step

AGENT = "agent-00"
ENDS = ("20000 100000", "max 100000")


def step(kind: Kind, subject: str, **detail: Any) -> Step:
    return Step(1, 0.0, AGENT, kind, subject, "", detail)


def turn(number: int) -> Step:
    """A limit goes up if the number is even, and down again if it is odd."""
    return step(Kind.KNOB_WRITTEN, "cpu.max", before=ENDS[number % 2], after=ENDS[(number + 1) % 2])


def watching(quiet_seconds: float = 1000.0) -> NothingChanges:
    world: Any = SimpleNamespace(plan=Plan(1, quiet_seconds=quiet_seconds))
    return NothingChanges(world)


def turning(quiet_seconds: float) -> NothingChanges:
    """The invariant after a limit has turned often under faults and once at rest."""
    invariant = watching(quiet_seconds)
    for number in range(5):
        invariant.on_step(turn(number))
    invariant.on_step(step(Kind.PHASE, "rest"))
    for number in range(2):
        invariant.on_step(turn(number))
    return invariant


def test_a_limit_that_goes_up_and_down_at_rest_is_found() -> None:
    invariant = turning(150.0)
    invariant.on_step(turn(2))  # up to no limit, which counts with the way back
    with pytest.raises(Violation, match="turned 2 times"):
        invariant.on_step(turn(3))


def test_a_plan_that_had_no_time_to_settle_is_not_held_to_rest() -> None:
    turning(60.0).on_step(turn(2))


@pytest.mark.parametrize(("window", "rise", "quiet"), [(10, 1, 100.0), (60, 2, 140.0), (60, 1, 100.0)])
def test_a_plan_settles_after_its_windows_and_its_restores(window: int, rise: int, quiet: float) -> None:
    settings = {"ingestion": {"window_seconds": window}, "colocation": {"rise_windows": rise}}
    plan = Plan(1, quiet_seconds=quiet, settings=settings)
    assert has_settled(plan)
    assert not has_settled(replace(plan, quiet_seconds=quiet - 1.0))
    assert all(has_settled(draw(seed, seconds=90.0)) for seed in range(1, 20))


@pytest.mark.parametrize(
    ("text", "amount"), [("max 100000", math.inf), ("20000 100000", 20000), ("-1", math.inf), ("oom_kill_disable 1", 1)]
)
def test_the_amount_of_a_file(text: str, amount: float) -> None:
    assert amount_in(text) == amount


def turns_of(*values: float) -> int:
    swings = Swings()
    return sum(swings.turns(value) for value in values)


def test_a_swing_that_shrinks_comes_to_rest_and_one_that_does_not_is_counted() -> None:
    assert turns_of(5890, 4000, 1926, 3907, 1893, 2892, 1900, 2400, 1900) == 2, "the first up and down have none before"
    assert turns_of(5890, 1926, 5890, 1926, 5890, 1926) == 4
    assert turns_of(math.inf, 1000, math.inf, 1000, math.inf, 1000) == 2
    assert turns_of(1, 2, 2, 3, 3, 4) == 0


def test_a_swing_that_gets_rarer_is_told_from_one_that_keeps_its_pace() -> None:
    def last_of(*times: float) -> bool:
        turns = TurnTimes()
        return [turns.gets_rarer(at, 100.0 * (number % 2)) for number, at in enumerate((0.0, *times))][-1]

    assert last_of(361, 431, 446, 576, 591)
    assert not last_of(361, 431, 446, 501, 516)
    assert not last_of(361, 431, 446, 576), "the first of two"


def test_a_cpu_limit_that_is_raised_twice_may_turn_if_it_gets_rarer_and_smaller_in_two() -> None:
    def turn_at_rest(*waits: float) -> None:
        invariant = watching()
        at, value = 405.0, 102.4
        extremes = (207.1, 100.0, 153.9, 99.8, 126.7, 84.3, 113.7, 92.8)
        for number, (wait, after) in enumerate(zip(waits, extremes, strict=True)):
            at += wait
            if number == 5:
                invariant.on_step(Step(1, at, "", Kind.PHASE, "rest"))
            detail = {"before": str(value), "after": str(after)}
            invariant.on_step(Step(1, at, "", Kind.KNOB_WRITTEN, "node-00:/a/cpu.max", detail=detail))
            value = after

    turn_at_rest(0, 8, 22, 8, 37, 8, 67, 15)
    with pytest.raises(Violation, match=r"cpu.max turned 2 times"):
        turn_at_rest(0, 8, 22, 8, 22, 8, 22, 8)


@pytest.mark.parametrize(("second_cut", "is_found"), [(450.0, False), (500.0, True)])
def test_memory_limits_of_a_node_that_wait_longer_come_to_rest(second_cut: float, is_found: bool) -> None:
    invariant = watching()

    def write(at: float, pod: str, before: int, after: int) -> None:
        detail = {"before": str(before), "after": str(after)}
        invariant.on_step(Step(1, at, "", Kind.KNOB_WRITTEN, f"node-00:/{pod}/memory.high", detail=detail))

    write(367.0, "a", 3000, 2000)
    write(413.0, "a", 2000, 3000)
    write(435.0, "a", 3000, 2500)
    write(435.0, "b", 1000, 800)
    write(second_cut, "a", 2500, 2000)
    invariant.on_step(Step(1, 540.0, "", Kind.PHASE, "rest"))
    write(555.0, "b", 800, 1000)
    if is_found:
        with pytest.raises(Violation, match=r"b/memory.high turned 2 times"):
            write(578.0, "b", 1000, 800)
    else:
        write(578.0, "b", 1000, 800)


def test_only_memory_limits_may_turn_ever_more_rarely() -> None:
    def turn_at_rest(path: str) -> None:
        invariant = watching()
        for number, at in enumerate((361.0, 431.0, 446.0, 576.0, 591.0, 841.0)):
            if number == 3:
                invariant.on_step(Step(1, at, "", Kind.PHASE, "rest"))
            before, after = ("9000", "4000") if number % 2 == 0 else ("4000", "9000")
            invariant.on_step(Step(1, at, "", Kind.KNOB_WRITTEN, path, detail={"before": before, "after": after}))

    turn_at_rest("node-00:/a/memory.high")
    with pytest.raises(Violation, match=r"cpu.max turned 2 times"):
        turn_at_rest("node-00:/a/cpu.max")


def test_a_killer_that_is_on_without_a_limit_turns_once_on_its_way_back() -> None:
    invariant = watching()
    texts = [f"oom_kill_disable {on}\nunder_oom 0\noom_kill 0" for on in (0, 1)]

    def write(number: int) -> None:
        invariant.on_step(
            step(Kind.KNOB_WRITTEN, "a/memory.oom_control", before=texts[number % 2], after=texts[1 - number % 2])
        )

    write(0)
    invariant.on_step(step(Kind.PHASE, "rest"))
    for number in range(1, 4):
        write(number)
    with pytest.raises(Violation, match="oom_control turned 2 times"):
        write(4)


def test_a_logged_error_is_found_unless_a_fault_explains_it() -> None:
    disk = Disk()
    world: Any = SimpleNamespace(stations={AGENT: SimpleNamespace(disk=disk)})
    invariant = NoDefectIsLogged(world)
    invariant.on_step(step(Kind.LOGGED, "slackwater.agent", line="event='fact dropped'"))
    disk.is_read_only = True
    invariant.on_step(step(Kind.LOGGED, "slackwater.agent", line="event='ledger not written'"))
    disk.is_read_only = False
    for line in ("event='ledger not written'", "event='row of the outbox fails'"):
        with pytest.raises(Violation, match=line):
            invariant.on_step(step(Kind.LOGGED, "slackwater.agent", line=line))
