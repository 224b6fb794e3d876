"""Cycles of profiles through the service: proposals, records, rest, triggers, and a new owner."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from descheduler_scenes import CORE, SPEC, DeschedulerScene, client_of, hot_scene, job_ended
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.reports import pod

from slackwater.cli.applied_plan import applied_lines
from slackwater.cli.plan import lines, list_lines
from slackwater.console.domain.arithmetic import working_of
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.descheduling.documents import DeschedulerProfile
from slackwater.descheduling.profile import CycleTrigger, DeclaredProfile
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.reclaim_requested import ReclaimRequested
from slackwater.model.nodes import PodDetail
from slackwater.model.placement_rules import AntiAffinityRule, NodeTaint, PlacementRules, PodToleration, SpreadRule
from slackwater.model.pods import PodStatus
from slackwater.podmigration.jobs import MigrationMode, job_name
from slackwater.resources.hooks import InForce


async def test_a_hot_node_is_relieved_and_the_record_repeats_the_decision() -> None:
    scene = await hot_scene()
    async with scene.running():
        await scene.add_nodes("n0", "n1")
        (first, second) = await scene.cycles(2)
    assert {(move.node, move.target) for move in first} == {("n0", "n1")}
    assert len(first) == 2, "stops as soon as the node is under its threshold"
    assert not second
    (record, *_) = [record for record in scene.records() if record.reason is Reason.DESCHEDULE_PROPOSED]
    assert (record.kind, record.result, record.subject) == (DecisionKind.DESCHEDULE, 2, "p")
    assert {action.pod_uid for action in record.actions} == {move.pod_uid for move in first}
    assert {move.decision_id for move in first} == {record.id}
    module, _, name = record.replay.function.partition(":")
    working = working_of(record)
    assert "move default/p0: n0 to n1" in str(working)
    assert "trigger: interval" in working
    replayed = getattr(import_module(module), name)(**record.model_dump(mode="json")["replay"]["arguments"])
    assert replayed == record.result


EVERYTHING = tuple(map(str, PodDetail))
ON_B = PlacementRules(node_selector={"zone": "b"})
APART = PlacementRules(anti_affinity=(AntiAffinityRule("zone", {"app": "x"}),))
EVEN = PlacementRules(spread=(SpreadRule("zone", 1, {"app": "x"}),))
TOLERANT = PlacementRules(tolerations=(PodToleration("k"),))
X = {"labels": {"app": "x"}}


@pytest.mark.parametrize(
    ("plugin", "details", "moved", "reason"),
    [
        (
            "RemovePodsHavingTooManyRestarts",
            {"p0": {"status": PodStatus(restarts=120, reason="CrashLoopBackOff")}},
            "p0",
            "120 restarts, at least 100 (CrashLoopBackOff)",
        ),
        ("RemoveFailedPods", {}, "dead", "failed: OOMKilled"),
        (
            "RemovePodsViolatingNodeTaints",
            {"p1": {"rules": TOLERANT}, "p2": {"rules": TOLERANT}},
            "p0",
            "does not tolerate k=v:NoSchedule",
        ),
        (
            "RemovePodsViolatingNodeAffinity",
            {"p0": {"rules": ON_B}},
            "p0",
            "the node has zone=a, its node selector wants zone=b",
        ),
        (
            "RemovePodsViolatingInterPodAntiAffinity",
            {"p0": {**X, "rules": APART}, "p1": X},
            "p0",
            "a pod that its anti-affinity excludes is in the same domain",
        ),
        (
            "RemovePodsViolatingTopologySpreadConstraint",
            {uid: {**X, "rules": EVEN} for uid in ("p0", "p1")},
            "p0",
            "2 pods in zone a, 0 in the emptiest; allowed: 1",
        ),
    ],
)
async def test_each_plugin_proposes_by_what_agents_report(
    plugin: str, details: dict[str, dict[str, Any]], moved: str, reason: str
) -> None:
    """n0 in zone a has all pods and a taint, n1 in zone b none."""
    scene = DeschedulerScene()
    for uid in ("p0", "p1", "p2"):
        scene.run(uid, "n0", 100)
    scene.details = details
    scene.failed = {"n0": replace(pod("dead"), status=PodStatus(phase="Failed", reason="OOMKilled"))}
    spec = {"intervalSeconds": 10, "plugins": [{"name": plugin}], "limits": {"total": 1}, "dryRun": True}
    async with scene.running(spec | {"evictor": {"evictAllBarePods": True}}) as service:
        await scene.add_nodes("n0", labels={"zone": "a"}, taints=(NodeTaint("k", "v"),), reports=EVERYTHING)
        await scene.add_nodes("n1", labels={"zone": "b"}, reports=EVERYTHING)
        await scene.report()
        async with client_of(service) as client:
            plan = (await client.get("/v1/descheduling/plans/p")).json()
    expected = (moved, "" if moved == "dead" else "n1", plugin, reason)
    assert [(step["pod"], step["target"], step["plugin"], step["reason"]) for step in plan["steps"]] == [expected]
    assert not [name for name in plan["refusals"] if name.endswith("_not_reported")]


async def test_what_an_agent_does_not_report_is_a_reason_in_the_plan() -> None:
    scene = DeschedulerScene()
    for uid in ("p0", "p1"):
        scene.run(uid, "n0", 100)
    plugins = [{"name": "RemovePodsHavingTooManyRestarts"}, {"name": "RemovePodsViolatingNodeTaints"}]
    async with scene.running({"intervalSeconds": 10, "plugins": plugins, "dryRun": True}) as service:
        await scene.add_nodes("n0")
        await scene.add_nodes("n1", reports=EVERYTHING)
        await scene.report()
        async with client_of(service) as client:
            plan = (await client.get("/v1/descheduling/plans/p")).json()
    assert plan["refusals"] == {
        "node_taints_not_reported": 2,
        "placement_rules_not_reported": 2,
        "restarts_not_reported": 2,
    }
    assert "placement rules not reported 2, restarts not reported 2" in "\n".join(lines(plan))


async def test_a_failed_pod_is_evicted_without_a_reservation() -> None:
    scene = DeschedulerScene()
    scene.failed = {"n0": replace(pod("dead"), status=PodStatus(phase="Failed"))}
    plugins = [{"name": "RemoveFailedPods"}]
    async with scene.running({"intervalSeconds": 10, "plugins": plugins}):
        await scene.add_nodes("n0", "n1", reports=EVERYTHING)
        (moves, *_) = await scene.cycles(1, moves=False)
    assert [(move.pod_uid, move.target, move.mode) for move in moves] == [("dead", "", MigrationMode.EVICT_DIRECTLY)]


async def test_a_dry_run_is_recorded_and_proposes_nothing() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "dryRun": True}):
        await scene.add_nodes("n0", "n1")
        await scene.cycles(3)
    assert scene.proposed() == []
    found = [record for record in scene.records() if record.reason is Reason.DESCHEDULE_DRY_RUN]
    assert [record.result for record in found] == [2], "the same outcome is recorded once"


async def test_a_move_that_is_pending_counts_on_its_target() -> None:
    scene = await hot_scene()
    async with scene.running():
        await scene.add_nodes("n0", "n1")
        found = await scene.cycles(4, moves=False)
    assert [len(moves) for moves in found] == [2, 0, 0, 0]


async def test_a_new_owner_goes_on_with_the_rest_of_the_last_one() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "ttlSeconds": 1}):
        await scene.add_nodes("n0", "n1")
        (moved,) = await scene.cycles(1)
    for move in moved:
        scene.places[move.pod_uid] = "n0"  # placed badly again
    for uid in {"p0", "p1", "p2", "p3"} - {move.pod_uid for move in moved}:
        del scene.places[uid], scene.cpu[uid]
    scene.cpu = dict.fromkeys(scene.cpu, 1900)
    async with scene.running({**SPEC, "ttlSeconds": 1}):
        again = await scene.cycles(3)
    assert again == [[], [], []]
    held = {(each.pod_uid, each.rejected_because) for each in scene.records()[-1].alternatives}
    assert ("", "resting") in held
    assert {(uid, "resting") for uid in scene.places} <= held, "`why pod/NAME` says what held the pod"


async def test_a_workload_that_was_evicted_by_anything_rests() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "intervalSeconds": 25}):
        await scene.add_nodes("n0", "n1")
        await scene.report()
        for uid in scene.places:
            completed = EvictionCompleted(
                id=uid,
                node="n0",
                pod_uid=uid,
                writer="ensurance",
                outcome=EvictionOutcome.TERMINATED,
                completed_at=scene.scene.clock.now(),
                decision_id="",
            )
            await scene.publish(completed)
        await scene.cycles(3)
    assert scene.proposed() == []


@pytest.mark.parametrize(
    ("triggers", "started"),
    [({}, True), ({"cordon": False, "quotaReclaim": False, "hotspot": False}, False)],
)
async def test_events_start_a_cycle_before_its_interval(triggers: dict[str, bool], *, started: bool) -> None:
    quick = {"debounceSeconds": 2, **triggers}
    scene = DeschedulerScene()
    async with scene.running({**SPEC, "intervalSeconds": 3600, "triggers": quick}) as service:
        await scene.add_nodes("n0", "n1")
        await scene.cycles(1)
        for number in range(4):
            scene.run(f"p{number}", "n0", 900)
        await scene.report()
        assert scene.proposed() == []
        for event in ("cordon", "reclaim", "hotspot"):
            before = service.cycles.last_cycle_s("p")
            if event == "cordon":
                await scene.cordon("n0")
            elif event == "reclaim":
                now = scene.scene.clock.now()
                await scene.publish(ReclaimRequested(id="r", tree="t", wanted=(), valid_seconds=60.0, requested_at=now))
            else:
                await scene.report("waterline")
            await scene.scene.advance(1.0)
            assert service.cycles.last_cycle_s("p") == before, "events wait for others"
            for _ in range(3):
                await scene.scene.advance(1.0)
            assert (service.cycles.last_cycle_s("p") > before) is started, event
    assert bool(scene.proposed()) is started


async def test_a_plan_is_shown_step_by_step_and_changes_nothing() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "intervalSeconds": 3600}) as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        await scene.scene.advance(1.0)
        await scene.report()
        answers = [(await client.get("/v1/descheduling/plans/p")).json() for _ in range(2)]
        missing = await client.get("/v1/descheduling/plans/other")
    assert missing.status_code == 404
    assert answers[0]["id"] == answers[1]["id"]
    steps = answers[0]["steps"]
    assert [(step["node_load_before"], step["target_load_after"]) for step in steps] == [
        (0.45, 0.1125),
        (0.3375, 0.225),
    ]
    assert scene.proposed() == []
    text = lines(answers[0])
    assert text[1].split() == ["STEP", "POD", "FROM", "TO", "GAIN", "PLUGIN", "WHY"]
    assert text[2].split()[:10] == ["1", "default/p0", "n0", "45%", "->", "34%", "n1", "0%", "->", "11%"]
    assert "+33.8%" in text[2]
    assert lines({**answers[0], "steps": []})[1] == "no move is worth it now"


async def test_a_kept_plan_is_applied_once_and_its_gain_is_measured() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "intervalSeconds": 3600}) as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        await scene.scene.advance(1.0)
        await scene.report()
        tried = await client.post("/v1/move-plans", params={"dryRun": "true"}, json={"profile": "p"})
        assert (await client.get("/v1/move-plans")).json()["items"] == []
        made, again = [await client.post("/v1/move-plans", json={"profile": "p"}) for _ in range(2)]
        path = f"/v1/move-plans/{made.json()['id']}"
        assert (await client.post(f"{path}/apply", params={"dryRun": "true"})).json()["state"] == "recommended"
        asked = [(await client.post(f"{path}/apply")).json()["state"] for _ in range(2)]
        for _ in range(3):
            await scene.scene.advance(1.0)
        applied = (await client.post(f"{path}/apply")).json()
        proposed = scene.proposed()
        for move in proposed:
            scene.places[move.pod_uid] = move.target
            await scene.publish(job_ended(move, scene.scene.clock.now()))
        for _ in range(9):
            await scene.report()
            await scene.scene.advance(10.0)
        measured = (await client.get(path)).json()
        listed = (await client.get("/v1/move-plans")).json()["items"]
    assert [tried.status_code, made.status_code, again.status_code] == [200, 201, 200]
    assert tried.json()["id"] == made.json()["id"] == again.json()["id"]
    assert [step["feasible"] for step in made.json()["steps"]] == [True, True]
    assert asked == ["applying", "applying"]
    assert (applied["state"], len(proposed)) == ("applied", 2)
    assert [step["job"] for step in applied["steps"]] == [job_name(move.id) for move in proposed]
    assert (measured["state"], measured["measured_gain"]) == ("measured", measured["expected_gain"])
    assert [step["measured_gain"] for step in measured["steps"]] == [0.3375, 0.1125]
    assert measured["imbalance_measured"] < measured["imbalance_before"]
    assert [(each["id"], each["state"]) for each in listed] == [(made.json()["id"], "measured")]
    gains = [record for record in scene.records() if record.reason is Reason.MIGRATION_MEASURED]
    assert [record.subject for record in gains] == [step["job"] for step in applied["steps"]]
    for record in [*gains, *(each for each in scene.records() if each.rule == "apply")]:
        module, _, name = record.replay.function.partition(":")
        assert (
            getattr(import_module(module), name)(**record.model_dump(mode="json")["replay"]["arguments"])
            == record.result
        )
    assert "expected 33.8%" in gains[0].remaining_because
    text = lines(made.json())
    assert text[1].split() == ["STEP", "POD", "FROM", "TO", "GAIN", "FEASIBLE", "PLUGIN", "WHY"]
    assert text[2].split()[10:12] == ["+33.8%", "yes"]
    assert text[4] == "gain +22.5% expected per step; imbalance 22.5% -> 0.0% expected"
    assert text[-1] == f"apply it: slackwater apply --plan {made.json()['id']}"
    text = lines(measured)
    assert text[1].split()[5:] == ["MEASURED", "STATE", "JOB"]
    assert text[2].split()[10:] == ["+33.8%", "+33.8%", "Succeeded", "moved", applied["steps"][0]["job"]]
    assert "gain +22.5% expected, +22.5% measured per step" in text[4]
    assert list_lines(listed)[1].split()[1:3] == ["p", "measured"]
    assert applied_lines(applied, dry_run=False)[1] == f"podmigrationjob/{applied['steps'][0]['job']} default/p0"


async def test_a_plan_that_a_pools_mode_does_not_allow_says_so_and_is_not_applied() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "intervalSeconds": 3600}) as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        await scene.allow("throttle", "default")
        await scene.scene.advance(1.0)
        await scene.report()
        made = (await client.post("/v1/move-plans", json={"profile": "p"})).json()
        path = f"/v1/move-plans/{made['id']}"
        refused = await client.post(f"{path}/apply")
        await scene.allow("evict", "default")
        await scene.scene.advance(0.1)
        asked = await client.post(f"{path}/apply")
    said = "pool default is in mode throttle, which evicts nothing: its Autonomy must have mode evict"
    assert made["obstacles"] == [said]
    assert lines(made)[-1] == f"it cannot be carried out: {said}"
    assert (refused.status_code, refused.json()["code"]) == (409, "plan_blocked")
    assert asked.json()["state"] == "applying"


async def test_a_stale_plan_is_refused_and_says_what_changed() -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "intervalSeconds": 3600}) as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        await scene.scene.advance(1.0)
        await scene.report()
        made = (await client.post("/v1/move-plans", json={"profile": "p"})).json()
        path = f"/v1/move-plans/{made['id']}"
        await scene.cordon("n1")
        refused = await client.post(f"{path}/apply")
        shown = (await client.get(path)).json()
        await scene.scene.advance(0.1)
        await scene.cordon("n1", closed=False)
        await client.post(f"{path}/apply")
        await scene.scene.advance(0.1)
        await scene.cordon("n1")  # between the request and the decision
        for _ in range(3):
            await scene.scene.advance(1.0)
        stale = (await client.get(path)).json()
        twice = await client.post(f"{path}/apply")
        missing = await client.get("/v1/move-plans/none")
    assert (refused.status_code, refused.json()["code"]) == (409, "plan_stale")
    assert "step 1, default/p0: n1 takes no new pods" in refused.json()["detail"]
    assert [step["problem"] for step in shown["steps"]] == ["n1 takes no new pods"] * 2
    assert lines(shown)[-1] == "it is stale: make a new plan"
    assert lines(stale)[-1].startswith("stale: step 1, default/p0: n1 takes no new pods")
    assert (stale["state"], scene.proposed()) == ("stale", [])
    assert "n1 takes no new pods" in stale["why"]
    assert (twice.status_code, missing.status_code, missing.json()["code"]) == (409, 404, "plan_not_found")
    (record,) = [record for record in scene.records() if record.reason is Reason.DESCHEDULE_STALE]
    assert record.result == 0


async def test_the_moves_of_a_cycle_are_kept_as_an_applied_plan() -> None:
    scene = await hot_scene()
    async with scene.running() as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        (first,) = await scene.cycles(1)
        (listed,) = (await client.get("/v1/move-plans")).json()["items"]
        plan = (await client.get(f"/v1/move-plans/{listed['id']}")).json()
    assert (plan["state"], plan["cycle"], plan["decision_id"]) == ("applied", 1, first[0].decision_id)
    assert [step["job"] for step in plan["steps"]] == [job_name(move.id) for move in first]


async def _settled(loads: list[int], nodes: int) -> tuple[list[int], DeschedulerScene]:
    scene = DeschedulerScene()
    for number, load in enumerate(loads):
        scene.run(f"p{number}", f"n{number % max(nodes // 2, 1)}", load, f"default/Deployment/w{number % 5}")
    spec = {**SPEC, "rest": {"restSeconds": 5, "loopMoves": 1000}, "ttlSeconds": 1}
    async with scene.running(spec):
        await scene.add_nodes(*(f"n{number}" for number in range(nodes)))
        found = await scene.cycles(6)
    return [len(moves) for moves in found], scene


@settings(max_examples=8)
@given(loads=st.lists(st.integers(50, 2 * CORE), min_size=1, max_size=10), nodes=st.integers(2, 4))
def test_under_constant_load_cycles_come_to_rest(loads: list[int], nodes: int) -> None:
    counts, scene = asyncio.run(_settled(loads, nodes))
    assert counts[-2:] == [0, 0]
    assert all(scene.load(move.target) <= 0.6 * 4 * CORE for move in scene.proposed())


async def test_a_profile_that_is_deleted_during_the_cycle_of_another_one_is_followed_as_it_was() -> None:
    """The record of a cycle has the document that it followed."""
    scene = await hot_scene()
    async with scene.running() as service:
        await scene.add_nodes("n0", "n1")
        cycles: Any = service.cycles
        profile = cycles._profiles.now.values["p"]
        document = cycles._profiles.now.documents["p"]
        both = InForce({"a": replace(profile, name="a"), "p": profile}, {"a": document, "p": document})
        cycles._profiles, seen = SimpleNamespace(now=both), []

        async def run(ran: DeclaredProfile, of: DeschedulerProfile, trigger: CycleTrigger, window_s: float) -> None:
            seen.append((ran.name, of.name, window_s))
            cycles._profiles = SimpleNamespace(now=InForce())

        cycles._run, cycles._last = run, {}
        await cycles()
    assert seen == [("a", "p", profile.rest.loop_window_s), ("p", "p", profile.rest.loop_window_s)]
