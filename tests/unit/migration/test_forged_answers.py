"""An answer counts from the node that was asked: what another agent says of the same ids changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from move_scenes import MoveScene, move

from slackwater.events.eviction_completed import EvictionCompleted, completion_id
from slackwater.events.intent_observed import IntentObserved, ObservedStart
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.start_states import StartState

JOB = "/v1/podmigrationjobs/first"
API, DIGEST = "api", "5a1f"
EVICTION, START = "first-1-1", "first-1-start-1"


async def forge(scene: MoveScene, outcome: EvictionOutcome, state: StartState) -> None:
    """Agent n2 answers for n0's eviction and n1's start, whose ids it guessed."""
    now = scene.scene.clock.now()
    completed = EvictionCompleted(
        id=EVICTION, node="n2", pod_uid="api-0", writer="migration", outcome=outcome, completed_at=now, decision_id="d"
    )
    await scene.publish(completed, completion_id("n2", EVICTION, ""))
    said = ObservedStart(id=START, state=state, pod_uid="web-2")
    observed = IntentObserved(
        node="n2", writer="migration", generation=99, boot_epoch="b", received_at=now, observed_at=now, starts=(said,)
    )
    await scene.publish(observed)


@pytest.mark.parametrize("turns_before", [0, 1, 3])
@pytest.mark.parametrize(
    ("outcome", "state"),
    [(EvictionOutcome.TERMINATED, StartState.READY), (EvictionOutcome.REFUSED, StartState.FAILED)],
)
async def test_a_forged_answer_neither_ends_nor_hurries_a_move(
    turns_before: int, outcome: EvictionOutcome, state: StartState
) -> None:
    scene = MoveScene()
    for name in ("n0", "n1"):
        scene.nodes[name].files[API] = DIGEST
    scene.run("n0", "api-0", API, digest=DIGEST)
    async with scene.served(skipCheckExpectedReplicas=True) as client:
        if turns_before == 0:
            await forge(scene, outcome, state)
        assert (await client.put(JOB, json=move("first", "api-0"))).status_code == 201
        for turn in range(16):
            if turns_before == turn + 1:
                await forge(scene, outcome, state)
            await scene.turn(1)
        after: dict[str, Any] = (await client.get(JOB)).json()["status"]
    assert (after["phase"], after["outcome"], after["node"]) == ("Succeeded", "moved", "n1"), after
    assert scene.evicted == ["api-0"]
    assert after["replacement"] == "new-1"
