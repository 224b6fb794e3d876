"""The most telling faults, shortened, as part of `make test-all`; all of them, at full length: `make faults`.

Counts are judged as strictly as there, times against generous bounds.
"""

from __future__ import annotations

from functools import partial

import pytest
from tests.faults.runner import run_one
from tests.faults.scenario import CHOSEN, Scenario
from tests.faults.scenarios.agents import kill_simulated
from tests.faults.scenarios.brokers import brokers
from tests.faults.scenarios.kills import VICTIMS, kills
from tests.faults.scenarios.network import partition
from tests.faults.scenarios.poisoning import poisoning

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SCENARIOS = (
    Scenario("kills", "everything is killed once", partial(kills, victims=tuple(VICTIMS), times=1)),
    Scenario("kill-agent", "the agent is killed while it acts", partial(kill_simulated, times=4)),
    Scenario("partition", "agent and broker apart", partition),
    Scenario("broker-cluster", "three brokers, of which the leader fails", partial(brokers, times=1)),
    Scenario("poison", "poison beside honest agents", partial(poisoning, quiet_seconds=5, poison_seconds=8)),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_promises_hold_under(scenario: Scenario) -> None:
    outcome = run_one(scenario, CHOSEN)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.word == "passed", outcome.line()
