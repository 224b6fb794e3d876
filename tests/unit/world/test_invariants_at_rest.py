"""Limits that turn at rest and errors in logs are found, and hold where time or a fault explains them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.invariants import Violation
from tests.world.invariants.core.at_rest import NothingChanges, direction
from tests.world.invariants.core.logs import NoDefectIsLogged
from tests.world.machine.disk import Disk
from tests.world.plan import Plan
from tests.world.trace import Kind, Step

AGENT = "agent-00"
ENDS = ("20000 100000", "max 100000")


def step(kind: Kind, subject: str, **detail: Any) -> Step:
    return Step(1, 0.0, AGENT, kind, subject, "", detail)


def turn(number: int) -> Step:
    """A limit goes up if the number is even, and down again if it is odd."""
    return step(Kind.KNOB_WRITTEN, "cpu.max", before=ENDS[number % 2], after=ENDS[(number + 1) % 2])


@pytest.mark.parametrize(("quiet_seconds", "most"), [(120.0, 1), (60.0, 3)])
def test_a_limit_that_goes_up_and_down_at_rest_is_found(quiet_seconds: float, most: int) -> None:
    world: Any = SimpleNamespace(plan=Plan(1, quiet_seconds=quiet_seconds))
    invariant = NothingChanges(world)
    for number in range(5):
        invariant.on_step(turn(number))
    invariant.on_step(step(Kind.PHASE, "rest"))
    for number in range(most + 1):
        invariant.on_step(turn(number))
    with pytest.raises(Violation, match=f"turned {most + 1} times"):
        invariant.on_step(turn(most + 1))


@pytest.mark.parametrize(
    ("before", "after", "sign"),
    [
        ("max 100000", "20000 100000", -1),
        ("20000", "-1", 1),
        ("oom_kill_disable 0", "oom_kill_disable 1", 1),
        ("5", "5", 0),
    ],
)
def test_the_direction_of_a_value(before: str, after: str, sign: int) -> None:
    assert direction(before, after) == sign


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
