"""An agent that knows an eviction of another node cannot take the place of its answer at the broker, which drops what
has an id again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from broker_scene import NODES, secured

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.model.identifiers import new_id

MINE, OTHER = NODES
EVICTION = "job-1/2/1"
"""A name that follows from that of a job, so that all may know it."""


async def answer(bus: NatsBus, node: str, event_id: str) -> dict[str, Any]:
    """What the broker says of the answer to an eviction."""
    now = datetime.now(UTC)
    completed = EvictionCompleted(
        id=EVICTION, node=node, pod_uid="u", writer="migration", outcome=EvictionOutcome.TERMINATED, completed_at=now,
        decision_id="d",
    )  # fmt: skip
    message = encode(event_of(completed, source=f"agent/{node}", time=now, id=event_id))
    reply = await bus.client.request(message.subject, message.body, timeout=30, headers=dict(message.headers))
    said: dict[str, Any] = json.loads(reply.data)
    return said


async def test_what_another_agent_says_first_takes_no_answers_place(tmp_path: Path) -> None:
    broker = await secured(tmp_path)
    try:
        async with broker.agent(MINE) as mine, broker.agent(OTHER) as other:
            assert "duplicate" not in await answer(mine, MINE, completion_id(OTHER, EVICTION, new_id()))
            asked_by = new_id()
            first = await answer(other, OTHER, completion_id(OTHER, EVICTION, asked_by))
            again = await answer(other, OTHER, completion_id(OTHER, EVICTION, asked_by))
            assert ("duplicate" in first, again.get("duplicate")) == (False, True)
    finally:
        await broker.server.stop()
