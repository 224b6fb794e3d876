"""What ensurance knows of one node, step by step: which decisions a sample shows, and how long one is waited for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from slackwater.decisions.reasons import DecisionKind
from slackwater.ensurance.domain.node_state import Awaited, Evicting, GuardedNode, measurable

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SETTLE = 0.5


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


THROTTLE = Awaited("d", 1, "prod_cpu_pressure", 0.5, 0.1, at(0))
EVICT = replace(THROTTLE, kind=DecisionKind.EVICT)
ASKED = Evicting("d/1", "u", "name-u", 600, at(120), "evict_waterline_crossed", "d")


def after(one: Awaited, sampled: float, now: float, *evictions: Evicting) -> str:
    """Whether the sample shows it, it is still waited for, or it is given up."""
    node = GuardedNode("n", 1000, awaited=(one,), evictions=evictions)
    ready, left = measurable(node, at(sampled), SETTLE, at(now))
    assert ready in ((), (one,))
    assert left.awaited in ((), (one,))
    return "shown" if ready else "awaited" if left.awaited else "given up"


@pytest.mark.parametrize(
    ("one", "sampled", "now", "what"),
    [
        (THROTTLE, 59, 59.9, "awaited"),
        (THROTTLE, 60, 60, "given up"),
        (EVICT, 299, 299.9, "awaited"),
        (EVICT, 300, 300, "given up"),
        (replace(THROTTLE, actuated_at=at(1)), 1.4, 2, "awaited"),
        (replace(THROTTLE, actuated_at=at(1)), 1.5, 2, "shown"),
        (replace(THROTTLE, actuated_at=at(50)), 50.4, 60, "awaited"),
        (replace(EVICT, actuated_at=at(600)), 600.4, 601, "awaited"),
        (replace(EVICT, actuated_at=at(600)), 600.5, 601, "shown"),
        (replace(EVICT, actuated_at=at(600)), 599, 900, "given up"),
    ],
)
def test_an_effect_is_waited_for_from_when_it_can_be_seen(one: Awaited, sampled: float, now: float, what: str) -> None:
    """A pod with ten minutes of grace ends later than any patience that begins with its decision."""
    assert after(one, sampled, now) == what


def test_no_effect_is_given_up_while_a_completion_is_expected() -> None:
    assert after(EVICT, 1000, 1000, ASKED) == "awaited"
    assert after(EVICT, 1000, 1000, replace(ASKED, decision_id="another")) == "given up"
