"""The machine that most tests of the agent begin with; a file that needs another has its own."""

from __future__ import annotations

import pytest
from agent_fakes import pod
from agent_world import World

from slackwater.model.tiers import Tier


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    found.driver.rates = {"a": 1000, "b": 500, "p": 250}
    return found
