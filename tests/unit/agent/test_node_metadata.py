"""Labels and annotations that the agent's settings add to its node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.clock import FakeClock

from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.node_agent import described
from slackwater.agent.settings import AgentSettings
from slackwater.events.node_described import NodeDescribed

BEFORE = Path(__file__).parents[2] / "contract" / "golden" / "node.described.v1.json"


def test_labels_and_annotations_of_the_settings_are_published_beside_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLACKWATER_AGENT_LABELS", '{"role": "web"}')
    monkeypatch.setenv("SLACKWATER_AGENT_ANNOTATIONS", '{"slackwater.io/colocation-strategy": "{}"}')
    facts = described(SimulatedDriver("n", 1, FakeClock()).facts(), AgentSettings())
    assert facts.labels["role"] == "web"
    assert facts.annotations == {"slackwater.io/colocation-strategy": "{}"}


def test_a_description_from_before_annotations_has_none() -> None:
    body = json.loads(BEFORE.read_text())["body"]
    assert NodeDescribed.model_validate(body).facts.annotations == {}
