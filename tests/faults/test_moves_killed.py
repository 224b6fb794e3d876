"""kill -9 of descheduler, migration and agents at the steps of a move. A run takes one point, by
`SLACKWATER_TEST_SEED`; `--hypothesis-profile=thorough` takes all (20 minutes), as `make faults ARGS=kill-moves` does.
"""

from __future__ import annotations

import os
import random
from functools import partial

import pytest
from hypothesis import settings
from tests.faults.move_halts import NEW
from tests.faults.move_points import (
    AGENT_STORIES,
    KEPT_STORIES,
    NOT_OF_MOVES,
    OUTCOMES,
    PLAN_STORIES,
    PLANS_LEFT_OUT,
    PODS,
    PUBLISHED_STORIES,
    STARTS_LEFT_OUT,
    TRANSITION_STORIES,
    VICTIMS,
    CrashPoint,
    Story,
    crash_points,
    named_points,
)
from tests.faults.runner import run_one
from tests.faults.scenario import CHOSEN, Scenario
from tests.faults.scenarios.moves import killed_moves

from slackwater import descheduler, migration
from slackwater.descheduler.domain.kept_plans import PlanState
from slackwater.events.intent_declared import IntentDeclared
from slackwater.migration.edge.events import consumers
from slackwater.model.start_states import StartState
from slackwater.podmigration.lifecycle_invariants import TRANSITIONS

IS_THOROUGH = settings.get_current_profile_name() == "thorough"
_START = "agent stores start "


def test_every_transition_of_a_job_has_a_crash_point() -> None:
    steps = {(before, after) for before, following in TRANSITIONS.items() for after in following}
    assert {pair for pair in TRANSITION_STORIES if pair[0] != NEW} == steps


def test_everything_that_the_services_read_and_publish_of_moves_has_a_crash_point() -> None:
    read = consumers(None, None, None, None)  # type: ignore[arg-type] # nothing is handled
    assert {consumer.payload.TYPE for consumer in read} == set(KEPT_STORIES)
    services = {"descheduler": descheduler.PUBLISHES, "migration": migration.PUBLISHES}
    published = {(name, event) for name, events in services.items() for event in events if event not in NOT_OF_MOVES}
    assert published - {("migration", IntentDeclared.TYPE)} == set(PUBLISHED_STORIES)


def test_every_state_of_plans_and_starts_has_a_crash_point_or_a_reason() -> None:
    assert {*PLAN_STORIES, *PLANS_LEFT_OUT} == set(PlanState)
    starts = {StartState(name.removeprefix(_START)) for name in AGENT_STORIES if name.startswith(_START)}
    assert starts | set(STARTS_LEFT_OUT) == set(StartState)
    assert not starts & set(STARTS_LEFT_OUT)


def test_every_story_is_told_and_says_what_runs_afterwards() -> None:
    points = crash_points()
    assert {point.story for point in points} == set(Story) == set(OUTCOMES)
    assert {outcome for point in points for outcome in point.outcomes} == set(PODS)
    assert len({(point.name, point.victim) for point in points}) == len(points) == 4 * len(named_points())
    assert {point.victim for point in points} == set(VICTIMS)


def drawn() -> list[CrashPoint]:
    points = crash_points()
    if IS_THOROUGH:
        return list(points)
    chance = random.Random(int(os.environ.get("SLACKWATER_TEST_SEED", "1")))
    return [chance.choice([point for point in points if point.story is not Story.HERE])]  # that one waits 30 s


@pytest.mark.faults
@pytest.mark.timeout(3600 if IS_THOROUGH else 300)
def test_a_move_outlives_a_kill_at_a_drawn_point() -> None:
    points = drawn()
    scenario = Scenario("kill-moves", "a kill at a step of a move", partial(killed_moves, points=points), minutes=20)
    outcome = run_one(scenario, CHOSEN)
    assert outcome.word == "passed", outcome.line()
