"""A job moves a pod from node to node: reserved, evicted, replaced, succeeded; and what happens where it cannot."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import httpx2
from move_scenes import MoveScene, move

JOBS = "/v1/podmigrationjobs"


async def status(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    answer = await client.get(f"{JOBS}/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json().get("status", {})
    return found


async def ask(client: httpx2.AsyncClient, name: str, pod: str, **spec: Any) -> None:
    made = await client.put(f"{JOBS}/{name}", json=move(name, pod, **spec))
    assert made.status_code == 201, made.text


async def test_a_pod_moves_to_a_node_with_room_and_its_job_succeeds() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        await ask(client, "first", "web-0", reason="n0 is hot")
        await scene.turn(12)
        after = await status(client, "first")
        steps = [change.step for change in scene.published("migration.changed")]
        assert list(dict.fromkeys(steps)) == ["admitted", "reserving", "evicting", "ended"]
        assert (after["phase"], after["outcome"], after["fromNode"]) == ("Succeeded", "moved", "n0"), after
        assert after["node"] == "n2", "the node with the most headroom left"
        assert after["replacement"] in scene.nodes["n2"].pods
        assert scene.evicted == ["web-0"]
        assert "web-0" not in scene.nodes["n0"].pods
        ledger = await scene.ledger()
        assert ledger.reservations == {}, "released with the end of the move"
        assert (await client.get("/v1/reservations")).json()["items"] == []
        await scene.turn(15)
        assert (await scene.ledger()).state.documents == {}, "the agent has answered that nothing is wanted"


async def test_each_decision_is_recorded_and_comes_out_the_same_again() -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerNode=1) as client:
        await ask(client, "first", "web-0")
        await ask(client, "second", "web-1")
        await scene.turn(25)
        assert [(await status(client, name))["phase"] for name in ("first", "second")] == ["Succeeded"] * 2
    records = [change.record for change in scene.published("decision.recorded") if change.record.kind == "migration"]
    reasons = {record.reason.value for record in records}
    assert reasons == {"migration_admitted", "migration_held", "migration_stepped", "migration_succeeded"}
    held = next(record for record in records if record.reason.value == "migration_held")
    assert {each.name: each.value for each in held.inputs}["filter"] in {"workload_migrating", "node"}
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record
