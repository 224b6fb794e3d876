"""A job moves a pod from node to node: reserved, evicted, replaced, succeeded; and what happens where it cannot."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import httpx2
from move_scenes import MoveScene, document, move

from slackwater.bus.rosters.roster_publisher import REPEAT_SECONDS
from slackwater.events.move_proposed import MoveProposed
from slackwater.migration.adapters.migration_rows import KeyedMigrationStore
from slackwater.model.tiers import Tier
from slackwater.store.quarantine_memory import unstored

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


async def test_jobs_that_need_no_room_end_as_they_are_asked_to() -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerWorkload=2) as client:
        await ask(client, "dry", "web-0", dryRun=True)
        await ask(client, "direct", "web-1", mode="EvictDirectly")
        await ask(client, "missing", "no-such-pod")
        refused = await client.put(f"{JOBS}/nameless", json=document("PodMigrationJob", "nameless", {"podRef": {}}))
        assert (refused.status_code, refused.json()["field"]) == (422, "spec.podRef"), refused.text
        await scene.turn(20)
        ends = {name: await status(client, name) for name in ("dry", "direct", "missing")}
        assert {name: (end["phase"], end["reason"], end["outcome"]) for name, end in ends.items()} == {
            "dry": ("Succeeded", "DryRun", "old_pod_runs"),
            "direct": ("Succeeded", "Complete", "moved"),
            "missing": ("Failed", "MissingPod", "pod_vanished"),
        }
        assert scene.evicted == ["web-1"]
        changed = move("direct", "web-2", mode="EvictDirectly")
        refused = await client.put(f"{JOBS}/direct", json=changed)
        assert (refused.status_code, refused.json()["code"]) == (409, "migration_exists")


async def test_where_no_node_has_room_nothing_is_evicted_and_the_counts_are_told() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        for number, node in enumerate(("n1", "n2", "n1", "n2")):
            scene.run(node, f"big-{number}", "shop/big", cpu_milli=2_900)
            scene.run(node, f"batch-{number}", "shop/batch", cpu_milli=4_000, tier=Tier.BATCH)
        await scene.turn(2)
        await ask(client, "first", "web-0")
        await scene.turn(4)
        waiting = (await client.get("/v1/reservations")).json()["items"]
        why = (
            "0 of 3 nodes take it: 1 headroom, 1 other-node, 1 requests; nearest is n2: 2 cpu needed, 600m left of "
            "predicted headroom; 4 pods count with what they request until prediction knows them"
        )
        said, until = waiting[0]["status"]["message"].split("; the move waits until ")
        assert (len(waiting), said) == (1, why)
        assert until > waiting[0]["status"]["since"]
        assert waiting[0]["status"]["job"] == "first"
        refused = await client.delete(f"/v1/reservations/{waiting[0]['metadata']['name']}")
        assert (refused.status_code, refused.json()["code"]) == (409, "reservation_of_a_move")
        await scene.turn(32)
        after = await status(client, "first")
        assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "Unschedulable", "old_pod_runs")
        assert after["message"] == why
        assert (await client.get("/v1/reservations")).json()["items"] == []
        assert scene.evicted == []


async def test_a_held_job_shows_which_limit_holds_it_and_goes_on_when_that_is_raised() -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerNode=1, maxMigratingPerWorkload=2, maxUnavailablePerWorkload=2) as client:
        scene.nodes["n0"].is_deaf = True
        await ask(client, "first", "web-0")
        await scene.turn(3)
        await ask(client, "second", "web-1")
        await scene.turn(3)
        held = (await status(client, "second"))["heldBy"]
        assert (held["filter"], held["scope"], held["count"], held["limit"]) == ("node", "n0", 1, 1)
        await scene.turn(2)
        assert (await status(client, "second"))["heldBy"]["since"] == held["since"], "since the same filter holds it"
        spec = {
            "interval": "1s",
            "maxMigratingPerNode": 2,
            "maxMigratingPerWorkload": 2,
            "maxUnavailablePerWorkload": 2,
            "workloadLimiter": {"duration": "0s"},
        }
        stored = await client.put("/v1/arbitrationargs/default", json=document("ArbitrationArgs", "default", spec))
        assert stored.status_code == 200, stored.text
        scene.nodes["n0"].is_deaf = False
        await scene.turn(10)
        assert [(await status(client, name))["phase"] for name in ("first", "second")] == ["Succeeded"] * 2


async def test_a_deleted_job_is_aborted_and_its_pod_stays() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        scene.nodes["n0"].is_deaf = True
        await ask(client, "first", "web-0")
        await scene.turn(5)
        assert (await status(client, "first"))["step"] == "evicting"
        assert (await client.delete(f"{JOBS}/first")).status_code == 200
        await scene.turn(2)
        (kept,) = (await scene.ledger()).jobs.values()
        assert (kept.job.step, kept.job.reason) == ("withdrawing", "Aborted"), "until the agent has answered"
        scene.nodes["n0"].is_deaf = False
        await scene.turn(15 + int(REPEAT_SECONDS))  # a roster from after its grace shows it
        ledger = await scene.ledger()
        (kept,) = ledger.jobs.values()
        assert (kept.job.phase, kept.job.outcome) == ("Aborted", "old_pod_runs")
        assert (scene.evicted, ledger.reservations) == ([], {})
        await ask_again(client, "first", "web-0", 3)
        await scene.turn(8)
        assert (await status(client, "first"))["phase"] == "Succeeded", "the name is free again"
        assert (await client.delete(f"{JOBS}/first")).status_code == 200
        await scene.turn(2)
        assert (await scene.ledger()).jobs == {}, "an ended job goes with its document"
        await ask_again(client, "first", "web-1", 5)
        await scene.turn(8)
        assert (await status(client, "first"))["phase"] == "Succeeded"


async def ask_again(client: httpx2.AsyncClient, name: str, pod: str, generation: int) -> None:
    made = await client.put(f"{JOBS}/{name}", json=move(name, pod))
    assert (made.status_code, made.headers["etag"]) == (201, f'"{generation}"'), made.text


async def test_an_eviction_that_is_refused_for_good_ends_its_move_at_once_with_the_reason() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        scene.nodes["n0"].refuses = True
        await ask(client, "first", "web-0", ttl="500s")
        await scene.turn(8)
        assert len(scene.nodes["n0"].done) == 1
        after = await status(client, "first")
        assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "FailedEvict", "old_pod_runs")
        assert after["message"] == "the pod is protected"
        scene.nodes["n0"].refuses = False
        await scene.turn(40)
        assert (scene.evicted, (await scene.ledger()).reservations) == ([], {})
        await ask(client, "second", "web-0")
        await scene.turn(8)
        assert scene.evicted == ["web-0"], "another move may take it"


async def test_an_eviction_that_did_not_begin_is_asked_for_again_under_another_id_until_its_time_is_over() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        scene.nodes["n0"].postpones = True
        await ask(client, "first", "web-0", ttl="50s")
        await scene.turn(45)
        assert len(scene.nodes["n0"].done) == 2, "once in 30 s"
        after = await status(client, "first")
        assert (after["step"], after["reason"]) == ("evicting", "FailedEvict")
        await scene.turn(25)
        after = await status(client, "first")
        assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "Timeout", "old_pod_runs")
        assert scene.evicted == []


async def test_a_pool_that_may_not_evict_holds_its_moves_and_says_so() -> None:
    scene = MoveScene()
    async with scene.served({"mode": "throttle"}) as client:
        await ask(client, "first", "web-0", ttl="20s")
        await scene.turn(5)
        assert (await status(client, "first"))["message"] == "pool default is in mode throttle"
        await scene.turn(20)
        after = await status(client, "first")
        assert (after["reason"], after["message"]) == ("Timeout", "pool default is in mode throttle")
        assert scene.published("intent.declared") == [] or scene.evicted == []


async def test_the_autonomy_counts_moves() -> None:
    scene = MoveScene()
    async with scene.served({"mode": "evict", "evictionsPerHour": 1}, maxMigratingPerWorkload=2) as client:
        await ask(client, "first", "web-0")
        await scene.turn(8)
        await ask(client, "second", "web-1", ttl="20s")
        await scene.turn(30)
        assert scene.evicted == ["web-0"]
        after = await status(client, "second")
        assert after["reason"] == "Timeout"
        assert "1 of 1 evictions an hour are used" in after["message"]


def proposed(scene: MoveScene, proposal: str, pod: str, **more: Any) -> MoveProposed:
    values: dict[str, Any] = {"target": "n1", "ttl_seconds": 60.0, "gain": 0.25, **more}
    return MoveProposed(
        id=proposal,
        profile="balance",
        cycle=3,
        plugin="LowNodeLoad",
        pod_uid=pod,
        pod_name=pod,
        namespace="shop",
        workload="shop/web",
        node="n0",
        reason="cpu above its threshold",
        decision_id="d-1",
        proposed_at=scene.scene.clock.now(),
        **values,
    )


async def test_a_proposal_becomes_one_job_however_often_it_comes_and_goes_where_it_says() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        for _ in range(2):
            await scene.publish(proposed(scene, "0198-a", "web-0"))
        await scene.turn(8)
        await scene.publish(proposed(scene, "0198-a", "web-0"), "another delivery")
        await scene.publish(proposed(scene, "Other/ID", "web-1", ttl_seconds=0.0))
        await scene.turn(4)
        (item,) = (await client.get(JOBS)).json()["items"]
        assert item["metadata"] == {"name": "move-0198-a", "generation": 0, "changedBy": "descheduler"}
        assert (item["status"]["node"], item["status"]["outcome"]) == ("n1", "moved"), "the target of the proposal"
        assert item["spec"]["reason"] == "balance/LowNodeLoad: cpu above its threshold"
        assert (await status(client, "move-0198-a"))["source"] == "descheduler"
        taken = await client.put(f"{JOBS}/move-0198-a", json=move("move-0198-a", "web-1"))
        assert (taken.status_code, taken.json()["code"]) == (409, "migration_exists")
        assert await KeyedMigrationStore(scene.scene.database("migration"), unstored()).asks() == {}


async def test_a_proposed_job_is_aborted_like_any_other() -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerNode=1) as client:
        scene.nodes["n0"].is_deaf = True
        await ask(client, "first", "web-0")
        await scene.turn(4)
        await scene.publish(proposed(scene, "0198-b", "web-1"))
        await scene.turn(3)
        assert (await status(client, "move-0198-b"))["heldBy"]["filter"] in {"node", "workload_migrating"}
        tried = await client.delete(f"{JOBS}/move-0198-b?dryRun=true")
        assert tried.status_code == 200, tried.text
        await scene.turn(2)
        assert (await status(client, "move-0198-b"))["phase"] == "Pending"
        assert (await client.delete(f"{JOBS}/move-0198-b")).status_code == 200
        await scene.turn(2)
        after = await status(client, "move-0198-b")
        assert (after["phase"], after["outcome"]) == ("Aborted", "old_pod_runs")
        assert (await client.delete(f"{JOBS}/none")).json()["code"] == "podmigrationjob_not_found"


async def reservations(client: httpx2.AsyncClient) -> dict[str, Any]:
    items = (await client.get("/v1/reservations")).json()["items"]
    return {item["metadata"]["name"]: item["status"] for item in items}


async def test_a_reservation_keeps_room_until_its_time_is_over() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        spec = {"resources": {"cpu": "6"}, "owners": [{"workload": "shop/later"}], "ttl": "30s"}
        for name in ("kept", "second"):
            made = await client.put(f"/v1/reservations/{name}", json=document("Reservation", name, spec))
            assert made.status_code == 201, made.text
        await scene.turn(3)
        shown = await reservations(client)
        assert (shown["kept"]["phase"], shown["kept"]["nodeName"]) == ("Available", "n2")
        assert (shown["second"]["phase"], shown["second"]["reason"]) == ("Pending", "Unschedulable")
        await ask(client, "first", "web-0", targetNode="n2")
        await scene.turn(8)
        assert (await status(client, "first"))["node"] == "n1", "what is kept on n2 is not given to a move"
        await scene.turn(25)
        shown = await reservations(client)
        assert (shown["kept"]["phase"], shown["kept"]["reason"]) == ("Expired", "Expired")
        assert (await client.delete("/v1/reservations/kept")).status_code == 200
        await scene.turn(2)
        assert set((await scene.ledger()).reservations) == {"second"}


async def test_a_pod_uses_one_reservation_and_leaves_the_others_whole() -> None:
    scene = MoveScene(nodes=("n0", "n1"))
    async with scene.served() as client:
        for name, order in (("a", 0), ("b", 7), ("c", 2)):
            spec = {"resources": {"cpu": "1"}, "owners": [{"workload": "shop/later"}], "nodeName": "n1", "order": order}
            await client.put(f"/v1/reservations/{name}", json=document("Reservation", name, spec))
        await scene.turn(3)
        shown = await reservations(client)
        assert {name: status["phase"] for name, status in shown.items()} == dict.fromkeys("abc", "Available")
        for uid, order in (("later-0", "c"), ("later-1", "b"), ("later-2", "a")):
            scene.run("n1", uid, workload="shop/later")
            await scene.turn(3)
            owned = {name: tuple(status["currentOwners"]) for name, status in (await reservations(client)).items()}
            assert owned.pop(order) == (uid,), "the lowest order above 0 first"
            assert all(uid not in owners for owners in owned.values())
        scene.run("n1", "later-3", workload="shop/later")
        await scene.turn(3)
        assert all("later-3" not in status["currentOwners"] for status in (await reservations(client)).values())


async def test_a_placed_reservation_is_changed_by_deleting_it_first() -> None:
    scene = MoveScene()
    url = "/v1/reservations/kept"
    spec = {"resources": {"cpu": "1"}, "owners": [{"workload": "shop/later"}], "ttl": "9s"}
    async with scene.served() as client:
        await client.put(url, json=document("Reservation", "kept", {**spec, "nodeName": "n9"}))
        await scene.turn(3)
        assert (await reservations(client))["kept"]["phase"] == "Pending"
        assert (await client.put(url, json=document("Reservation", "kept", spec))).status_code == 200
        await scene.turn(3)
        assert (await reservations(client))["kept"]["phase"] == "Available"
        assert (await client.put(url, json=document("Reservation", "kept", spec))).status_code == 200, "the same"
        longer = document("Reservation", "kept", {**spec, "ttl": "60s"})
        refused = await client.put(url, json=longer)
        assert (refused.status_code, refused.json()["code"]) == (409, "reservation_is_placed")
        assert "kept is Available on n" in refused.json()["detail"]
        await scene.turn(12)
        assert (await reservations(client))["kept"]["phase"] == "Expired"
        assert (await client.put(url, json=longer)).json()["code"] == "reservation_is_placed"
        assert (await client.delete(url)).status_code == 200
        assert (await client.put(url, json=longer)).status_code == 201, "before the next round"
        await scene.turn(12)
        assert (await reservations(client))["kept"]["phase"] == "Available"


async def test_what_is_kept_is_published_by_node_until_it_is_released() -> None:
    scene = MoveScene()
    async with scene.served() as client:
        spec = {"resources": {"cpu": "1", "batch-cpu": "2"}, "owners": [{"workload": "shop/later"}], "ttl": "18s"}
        made = await client.put("/v1/reservations/kept", json=document("Reservation", "kept", spec))
        assert made.status_code == 201, made.text
        for node in scene.nodes:
            await scene.offer(node, 3_000)
        await scene.turn(3)
        [first] = scene.published("node.reserved")
        rooms = {room.tier: room for room in first.rooms}
        assert {tier.value: room.amount.cpu_milli for tier, room in rooms.items()} == {"prod": 1_000, "batch": 2_000}
        begun_s = (await scene.ledger()).reservations["kept"].reservation.created_s
        assert {room.expires_at.timestamp() for room in first.rooms} == {begun_s + 18}
        await scene.offer(first.node, 1_000, reserved=2_000)  # colocation has taken it off
        more = {"resources": {"batch-cpu": "1"}, "owners": [{"workload": "shop/more"}], "nodeName": first.node}
        for name in ("a-fits", "beyond"):
            await client.put(f"/v1/reservations/{name}", json=document("Reservation", name, more))
        await scene.turn(2)
        shown = await reservations(client)
        assert (shown["a-fits"]["phase"], shown["beyond"]["phase"]) == ("Available", "Pending"), "taken off once"
        for name in ("a-fits", "beyond"):
            await client.delete(f"/v1/reservations/{name}")
        await ask(client, "first", "web-0")
        await scene.turn(12)
        assert (await status(client, "first"))["outcome"] == "moved"
        published = [room for event in scene.published("node.reserved") for room in event.rooms]
        [moved, *_] = [room for room in published if room.name.startswith("pmj-")]
        assert (moved.amount.cpu_milli, moved.expires_at is None) == (2_000, False), "a while after the job's deadline"
        await scene.turn(6)
        last = {event.node: event for event in scene.published("node.reserved")}
        assert [event.rooms for event in last.values()] == [()] * len(last), "expired, and released by the move"
        generations = [event.generation for event in scene.published("node.reserved")]
        assert generations == sorted(generations)
