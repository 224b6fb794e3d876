"""Jobs of a small fleet from submission to the end, as a state machine: limits hold at every instant, jobs end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from move_world import MoveWorld

from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.budgets import workload_budget
from slackwater.podmigration.jobs import DEGRADED, MigrationJob, MigrationMode, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import Replacement, admit, hold, refuse, start
from slackwater.podmigration.limits import ArbitrationArgs, JobHold, MigrationLimits
from slackwater.podmigration.rate import MigrationQueue
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

PODS, NODES, NAMESPACES, WORKLOADS = 12, 3, 2, 4
REPLICAS = 5
_ACTS = (
    *(MoveWorld.decide, MoveWorld.converge, MoveWorld.schedule, MoveWorld.evict),
    *(MoveWorld.replace_pod, MoveWorld.become_ready),
)


class MigrationFleet(RuleBasedStateMachine):
    """Pods are numbers; a pod has a node, a namespace and a workload by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: dict[str, MoveWorld] = {}
        self.holds: dict[str, JobHold] = {}
        self.queue = MigrationQueue()
        self.now_s = 0.0
        self.args = ArbitrationArgs(interval_s=1.0, process_queue_qps=2.0)
        self.limits = MigrationLimits()

    @initialize(
        globally=st.sampled_from([None, 1, 3]),
        per_node=st.sampled_from([None, 1, 2]),
        per_namespace=st.sampled_from([None, 2]),
        per_workload=st.sampled_from([None, 1, "50%"]),
    )
    def configure(
        self, globally: int | None, per_node: int | None, per_namespace: int | None, per_workload: int | str | None
    ) -> None:
        self.limits = MigrationLimits(globally, per_node, per_namespace, per_workload, object_limiters={})

    @rule(pod=st.integers(0, PODS - 1), mode=st.sampled_from(MigrationMode), count=st.integers(1, 4))
    def submit(self, pod: int, mode: MigrationMode, count: int) -> None:
        """Of pods that were not moved: a new pod has another UID."""
        for number in range(pod, pod + count):
            uid = number % PODS
            if any(world.job.pod == str(uid) and not world.pod_runs for world in self.moves.values()):
                continue
            name = f"job-{len(self.moves)}"
            job = MigrationJob(name, str(uid), f"n{uid % NODES}", self.now_s, mode)
            self.moves[name] = MoveWorld(job, self.now_s, starts_itself=False)

    @rule()
    def arbitrate(self) -> None:
        snapshot = self._snapshot()
        before = [*snapshot.active]
        plan = arbitrate(snapshot, self.now_s)
        for name in plan.admitted:
            self._set(name, admit(self.moves[name].job, self.now_s))
        for name in plan.refused:
            self._set(name, refuse(self.moves[name].job, "one replica"))
        for name, held in plan.holds.items():
            self._set(name, hold(self.moves[name].job, held))
        self.holds = dict(plan.holds)
        self.queue = self.queue.enqueue(plan.admitted)
        self._check_limits(before)

    @rule()
    def process_queue(self) -> None:
        names, self.queue = self.queue.dequeue(self.now_s, self.args.process_queue_qps)
        for name in names:
            self._set(name, start(self.moves[name].job, self.now_s))

    @rule(acts=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(_ACTS)), min_size=1, max_size=8))
    @precondition(lambda self: self.moves)
    def act(self, acts: Sequence[tuple[int, object]]) -> None:
        worlds = [*self.moves.values()]
        for place, act in acts:
            act(worlds[-1 - place % len(worlds)])  # type: ignore[operator]

    @rule(seconds=st.sampled_from([0.5, 5.0, 400.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        for world in self.moves.values():
            world.now_s = self.now_s

    @rule(place=st.integers(0, 20))
    @precondition(lambda self: self.moves)
    def abort(self, place: int) -> None:
        job = [*self.moves.values()][place % len(self.moves)].job
        if job.step is not MigrationStep.ENDED:
            self._set(job.id, replace(job, abort_requested=True))

    @rule(per_node=st.sampled_from([None, 1, 2]), globally=st.sampled_from([None, 1, 2]))
    def change_limits(self, per_node: int | None, globally: int | None) -> None:
        """While moves are under way: those go on, and no other is admitted until there is room."""
        self.limits = replace(self.limits, max_migrating_per_node=per_node, max_migrating_globally=globally)

    @invariant()
    def no_pod_has_two_live_migrations(self) -> None:
        pods = Counter(job.pod for job in self._active())
        assert all(count == 1 for count in pods.values())

    @invariant()
    def a_waiting_job_states_what_holds_it(self) -> None:
        for name in self.holds:
            job = self.moves[name].job
            assert job.step is not MigrationStep.WAITING or job.message == self.holds[name].message

    def teardown(self) -> None:
        """Without further submissions every job ends: moved, or left as it was, or in a stated state."""
        for _ in range(80):
            if all(world.job.step is MigrationStep.ENDED for world in self.moves.values()):
                break
            self.arbitrate()
            self.process_queue()
            for world in self.moves.values():
                for act in _ACTS:
                    act(world)
            self.wait(40.0)
        for world in self.moves.values():
            assert world.job.step is MigrationStep.ENDED
            assert world.job.outcome not in DEGRADED or world.replacement is not Replacement.READY
            assert world.pod_runs or world.job.outcome is not MoveOutcome.OLD_POD_RUNS

    def _set(self, name: str, job: MigrationJob) -> None:
        self.moves[name].job = job

    def _active(self) -> list[MigrationJob]:
        ended = (MigrationStep.WAITING, MigrationStep.ENDED)
        return [world.job for world in self.moves.values() if world.job.step not in ended]

    def _snapshot(self) -> MigrationSnapshot:
        waiting = [
            WaitingJob(job.id, job.pod, _namespace(job), job.node, _workload(job), job.submitted_s)
            for world in self.moves.values()
            for job in [world.job]
            if job.step is MigrationStep.WAITING and world.pod_runs
        ]
        active = [
            ActiveJob(
                job.id, job.pod, _namespace(job), job.node, _workload(job), evicted=not self.moves[job.id].pod_runs
            )
            for job in self._active()
        ]
        return MigrationSnapshot(
            waiting,
            active,
            {f"w{number}": WorkloadReplicas(REPLICAS) for number in range(WORKLOADS)},
            limits=self.limits,
            args=self.args,
            queued=len(self.queue.jobs),
        )

    def _check_limits(self, before: Sequence[ActiveJob]) -> None:
        active = self._active()
        limits = self.limits
        assert len(active) <= max(limits.max_migrating_globally or 99, len(before))
        per_workload = workload_budget(REPLICAS, limits.max_migrating_per_workload)
        for limit, key, earlier in (
            (limits.max_migrating_per_node, lambda job: job.node, Counter(job.node for job in before)),
            (limits.max_migrating_per_namespace, _namespace, Counter(job.namespace for job in before)),
            (per_workload, _workload, Counter(job.workload for job in before)),
        ):
            for name, count in Counter(map(key, active)).items():
                assert count <= max(limit or 99, earlier[name])


def _namespace(job: MigrationJob) -> str:
    return f"ns{int(job.pod) % NAMESPACES}"


def _workload(job: MigrationJob) -> str:
    return f"w{int(job.pod) // 3 % WORKLOADS}"


TestMigrationFleet = MigrationFleet.TestCase
TestMigrationFleet.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
