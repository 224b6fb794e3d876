"""Rounds at random: lost reports, deaf and refusing agents, aborts and pauses. Every job ends, no pod is lost or moved
twice at a time, no room is kept twice, and no reservation is left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from round_world import CPU, NODES, RULES, RoundWorldState

from slackwater.migration.domain.stored_jobs import MigrationLedger
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import DEGRADED, MigrationMode, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle_invariants import TRANSITIONS, broken_by_state
from slackwater.reservations.lifecycle import broken_invariants
from slackwater.reservations.reservation import PLACED

REPLICAS, RESERVES = 6, MigrationMode.RESERVATION_FIRST
EVENTS = ("report", "obey", "obey", "refuse", "postpone", "wait", "job", "job", "direct", "abort", "pause")
ANSWERS = {"refuse": EvictionOutcome.REFUSED, "postpone": EvictionOutcome.EXPIRED}
STARTED = ("report", "report", "obey", "start", "start", "fail", "wait", "job", "job", "abort", "file")
started_happenings = st.lists(st.tuples(st.sampled_from(STARTED), st.integers(0, 11)), min_size=10, max_size=60)
MOVED_TWICE = [
    ("job", 1), ("report", 0), ("report", 0), ("obey", 1), ("report", 0), ("report", 0),
    ("report", 0), ("start", 2), ("start", 8), ("job", 1), ("report", 0), ("report", 0),
]  # fmt: skip
"""A second job for a pod that was moved: the node that it was on has not reported since."""
MOVED_WHILE_IT_STARTS = [
    ("job", 0), ("report", 0), ("report", 0), ("obey", 0), ("report", 0), ("report", 0), ("report", 0), ("start", 2),
    ("fail", 8), ("start", 0), ("job", 7), ("report", 0), ("report", 0), ("fail", 0),
]  # fmt: skip
"""A job for a pod that another move starts: the start fails after the job has begun."""
DELETED_AFTER_END = [
    ("job", 1), ("report", 0), ("report", 0), ("obey", 1), ("wait", 11), ("start", 2), ("fail", 8), ("abort", 0)
]  # fmt: skip
"""The start fails, the node that the pod came from is stale, and the document of the ended job is deleted."""
happenings = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 11)), min_size=10, max_size=60)


def check(before: MigrationLedger, after: MigrationLedger) -> None:
    per_pod, per_node = Counter[str](), Counter[str]()
    for name, stored in after.jobs.items():
        assert broken_by_state(stored.job) == [], stored
        earlier = before.jobs.get(name)
        if earlier is not None and earlier.job.step is MigrationStep.ENDED:
            assert stored.job == earlier.job, "an ended job changed"
        if stored.is_live and stored.job.step is not MigrationStep.WAITING:
            per_pod[stored.job.pod] += 1
            per_node[stored.job.node] += 1
    assert max(per_pod.values(), default=0) <= 1, "two moves of one pod"
    assert max(per_node.values(), default=0) <= (RULES.limits.max_migrating_per_node or 0)
    for name, kept in after.reservations.items():
        assert after.jobs[kept.job].is_live, "a reservation of an ended job"
        if name in before.reservations:
            assert list(broken_invariants(before.reservations[name].reservation, kept.reservation)) == []


def check_room(world: RoundWorldState, before: MigrationLedger) -> None:
    """What is newly kept on a node fits beside what is reported there and what was kept before."""
    kept = {
        name: each.reservation for name, each in world.ledger.reservations.items() if each.reservation.phase in PLACED
    }
    for name, reservation in kept.items():
        node = reservation.placed_on
        if name not in before.reservations or not before.reservations[name].reservation.placed_on:
            used = sum(pod.request.cpu_milli for pod in world.agents[node].reported.values())
            held = sum(each.held().get("cpu", 0) for each in kept.values() if each.placed_on == node)
            assert used + held <= CPU, (node, used, held)


def follow(world: RoundWorldState) -> None:
    before = world.ledger
    world.end()
    if world.digest:
        running = sum(len(agent.pods) for agent in world.agents.values())
        assert running <= REPLICAS, "two run"
    result = world.round()
    for step in result.steps:
        assert step.after.step in TRANSITIONS[step.before.step], (step.before.step, step.after.step)
    check(before, world.ledger)
    check_room(world, before)


def rest(world: RoundWorldState) -> None:
    """Everything answers again, for longer than any job may live."""
    for _ in range(60):
        world.now_s += 10.0
        for node in NODES:
            world.obey(node)
            world.start(node, fails=False)
            world.report(node)
        replace_evicted(world)
        follow(world)


def replace_evicted(world: RoundWorldState) -> None:
    running = REPLICAS if world.digest else sum(len(agent.pods) for agent in world.agents.values())
    while running < REPLICAS:
        world.run(min(NODES, key=lambda node: len(world.agents[node].pods)))
        running += 1


def happen(world: RoundWorldState, event: str, number: int) -> None:
    node, name = NODES[number % 3], f"move-{number}"
    match event:
        case "report":
            world.report(node)
        case "obey" | "refuse" | "postpone":
            world.obey(node, ANSWERS.get(event))
            replace_evicted(world)
        case "start" | "fail":
            world.start(node, fails=event == "fail")
        case "file":
            world.offering ^= {node}
        case "wait":
            world.now_s += 1.0 + 5.0 * number
        case "job" | "direct":
            ask(world, f"pod-{number + 1}", MigrationMode.EVICT_DIRECTLY if event == "direct" else RESERVES)
        case "abort" if world.requests.pop(name, None) is not None:
            world.withdrawn.add(name)
        case "pause" if name in world.requests:
            before = world.requests[name]
            world.requests[name] = replace(before, generation=before.generation + 1, paused=not before.paused)


def ask(world: RoundWorldState, pod: str, mode: MigrationMode) -> None:
    name = f"move-{len(world.requests) + len(world.withdrawn)}"
    world.requests[name] = JobRequest(name, 1, pod, mode=mode, ttl_s=60.0, wait_s=120.0)


@settings(max_examples=30, deadline=None)
@given(happenings)
def test_every_job_ends_and_nothing_is_lost_or_left(events: list[tuple[str, int]]) -> None:
    world = RoundWorldState()
    for number in range(REPLICAS):
        world.run(NODES[number % 2])
    for node in NODES:
        world.report(node)
    for event, number in events:
        happen(world, event, number)
        world.now_s += 0.5
        follow(world)
    rest(world)
    assert not world.ledger.live(), [stored.job for stored in world.ledger.live()]
    assert world.ledger.reservations == {}
    assert max(Counter(world.evicted).values(), default=1) == 1, "a pod was evicted twice"
    for stored in world.ended.values():
        is_its_own = world.evicted_by.get(stored.job.pod) == stored.job.id
        if stored.job.outcome is MoveOutcome.OLD_POD_RUNS:
            assert not is_its_own, "it said that the pod runs, and had evicted it"
        if stored.job.outcome in (MoveOutcome.MOVED, MoveOutcome.EVICTED):
            assert stored.job.pod in world.evicted_by
        assert stored.job.outcome not in DEGRADED or stored.evicting_s is not None
    assert world.ledger.state.documents == {}, "every agent has answered that nothing is wanted"


@settings(max_examples=30, deadline=None)
@given(started_happenings)
@example(DELETED_AFTER_END)
@example(MOVED_WHILE_IT_STARTS)
@example(MOVED_TWICE)
def test_what_no_owner_replaces_is_started_once_or_its_job_says_that_it_is_not(events: list[tuple[str, int]]) -> None:
    world = RoundWorldState(digest="d1", offering=set(NODES))
    for number in range(REPLICAS):
        world.run(NODES[number % 2])
    for node in NODES:
        world.report(node)
    for event, number in events:
        happen(world, event, number)
        world.now_s += 0.5
        follow(world)
    rest(world)
    assert not world.ledger.live(), [stored.job for stored in world.ledger.live()]
    assert world.ledger.reservations == {}
    assert world.ledger.state.documents == {}, "every agent has answered that nothing is wanted"
    lacking = 0
    for stored in world.ended.values():
        is_ended = world.evicted_by.get(stored.job.pod) == stored.job.id
        lacking += is_ended and stored.job.outcome in (MoveOutcome.REPLACEMENT_PENDING, MoveOutcome.UNCONFIRMED)
        if stored.job.outcome in (MoveOutcome.MOVED, MoveOutcome.RETURNED):
            assert stored.downtime_s is not None
            new = stored.job.replacement
            assert new in world.agents[stored.job.start_node].pods or new in world.evicted, "moved on"
        assert stored.job.outcome not in DEGRADED or stored.job.message, stored.job
    assert sum(len(agent.pods) for agent in world.agents.values()) == REPLICAS - lacking
