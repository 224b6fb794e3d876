"""A move starts on another node what no owner replaces: downtime, a start that fails, and every interruption."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import httpx2
import pytest
from move_scenes import MoveScene, move

from slackwater.cli.migration_columns import move_why_lines

JOB = "/v1/podmigrationjobs/first"
API, DIGEST = "api", "5a1f"
ARGS = {"skipCheckExpectedReplicas": True}
STARTED = 4
"""The transaction of an undisturbed move that declares the start; a test holds it."""


def scene_of(**files: str) -> MoveScene:
    """`api` runs on n0; `files` are the digests that nodes have of it."""
    scene = MoveScene()
    for name, digest in files.items():
        scene.nodes[name].files[API] = digest
    scene.run("n0", "api-0", API, digest=DIGEST)
    return scene


@asynccontextmanager
async def asked(scene: MoveScene) -> AsyncIterator[httpx2.AsyncClient]:
    async with scene.served(**ARGS) as client:
        made = await client.put(JOB, json=move("first", "api-0"))
        assert made.status_code == 201, made.text
        yield client


async def status(client: httpx2.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(JOB)).json()["status"]
    return found


def apis(scene: MoveScene) -> dict[str, list[str]]:
    """The pods of the workload, by node."""
    running = {
        name: [uid for uid, pod in node.pods.items() if pod.workload == API] for name, node in scene.nodes.items()
    }
    return {name: uids for name, uids in running.items() if uids}


async def test_a_workload_file_decides_where_a_pod_goes_and_its_start_is_followed() -> None:
    scene = scene_of(n0=DIGEST, n1=DIGEST, n2="other")
    async with asked(scene) as client:
        await scene.turn(14)
        after = await status(client)
    assert (after["phase"], after["outcome"], after["node"]) == ("Succeeded", "moved", "n1"), after
    assert apis(scene) == {"n1": [after["replacement"]]}
    assert after["downtimeSeconds"] == 2.0, "declared when it ended, begun and ready a second later each"
    documents = [one for one in scene.published("intent.declared") if one.starts]
    assert {(one.node, one.starts[0].workload, one.starts[0].digest) for one in documents} == {("n1", API, DIGEST)}
    assert documents[0].generation == STARTED
    evicted = min(one.completed_at for one in scene.published("eviction.completed"))
    assert all(one.declared_at >= evicted for one in documents), "not before the old pod is known to be gone"
    records = [change.record for change in scene.published("decision.recorded") if change.record.kind == "migration"]
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record
    shown = [record.model_dump(mode="json") for record in reversed(records)]
    lines = list(move_why_lines({"records": shown, "now": after}))
    assert lines[0] == "now Succeeded, ended to n1, downtime 2.00 s: Complete"
    assert "  downtime: 2.0 s (agents' answers, server's clock)" in lines


async def test_where_no_other_node_has_the_file_nothing_is_evicted_and_that_is_said() -> None:
    scene = scene_of(n0=DIGEST, n1="other")
    async with asked(scene) as client:
        await scene.turn(36)
        after = await status(client)
    assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "Unschedulable", "old_pod_runs")
    assert after["message"] == (
        "0 of 3 nodes take it: 2 labels-or-taints, 1 other-node; no other node offers workload api with digest 5a1f"
    )
    assert (scene.evicted, apis(scene)) == ([], {"n0": ["api-0"]})


async def test_a_start_that_fails_goes_back_and_the_job_has_the_words_of_the_agent() -> None:
    scene = scene_of(n0=DIGEST, n1=DIGEST)
    scene.nodes["n1"].fails_starts = True
    async with asked(scene) as client:
        await scene.turn(18)
        after = await status(client)
    assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "FailedStart", "returned")
    assert after["message"] == "the start on n1 failed: exit code 3: no such module"
    assert apis(scene) == {"n0": [after["replacement"]]}
    ledger = await scene.ledger()
    assert ledger.reservations == {}


@pytest.mark.parametrize("stop", [STARTED, STARTED + 1], ids=["start declared", "start begun"])
async def test_a_service_that_stops_while_the_pod_starts_is_followed_by_one_that_goes_on(stop: int) -> None:
    """Before the old pod is gone the move is that of test_moves_interrupted. The next process reads from the bus what
    the agent has answered."""
    scene = scene_of(n0=DIGEST, n1=DIGEST)
    async with scene.guarded(), AsyncExitStack() as stack:
        async with scene.moving() as client:
            await scene.begin(client, **ARGS)
            await client.put(JOB, json=move("first", "api-0"))
            while (await scene.ledger()).state.generation < stop:
                await scene.turn()
        await scene.turn(2)
        client = await stack.enter_async_context(scene.moving())
        await scene.scene.advance(30.0)  # until the leases of the stopped replica are free
        await scene.turn(4)
        after = await status(client)
    assert (after["phase"], after["outcome"]) == ("Succeeded", "moved"), after
    assert (scene.evicted, len(scene.nodes["n1"].starts), apis(scene)) == (["api-0"], 1, {"n1": ["new-1"]})
