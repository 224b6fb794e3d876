"""The nodes of a world of moves: their machines, what other services say of them, and the controllers of their pods.

A script says what ingestion, prediction and colocation would, and says again what holds, because the broker may have
lost it. A controller starts a pod in the place of each that has ended: most often on the node that a move has reserved,
sometimes elsewhere, late, or not before the faults are over. Loads, cordons and the size of workloads change until then
and stay as they are afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from datetime import datetime, timedelta
from itertools import cycle
from typing import Final

from tests.world.invariants.payloads import payload_of
from tests.world.move_habits import BUDGETS, STARTS
from tests.world.move_machines import SYSTEM_MILLI, HostedPod, MoveMachine
from tests.world.moved_files import MovedFiles
from tests.world.moves import POOL
from tests.world.plan import machines
from tests.world.processes import Process
from tests.world.scripted_budgets import APP, ScriptedBudgets
from tests.world.scripted_fleet import ScriptedNode, in_order
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.events.envelope import event_of
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import SlackwaterError
from slackwater.model.nodes import CpuTopology, Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.model.workload_labels import offered_label

SCRIPT: Final = "fleet"
GIB: Final = 1 << 30
CORES, MEMORY_BYTES = 8, 64 * GIB
AGAIN_SECONDS, PAUSE_SECONDS, CORDONED_SECONDS = 15.0, (1.0, 4.0), 30.0
LOST_SECONDS, DELETED_SECONDS = 6.0, 14.0
"""From the end of a machine until it is said to be lost, and until some are deleted."""
DAEMON: Final = "kube-system/DaemonSet/agent"
BARE: Final = "jobs/Pod/once"
_ACTS: Final = ("load", "load", "cordon", "uncordon", "offer", "scale", "nothing")


@record(frozen=True, slots=True)
class MovedWorkload:
    """Pods that a controller keeps running."""

    name: str
    tier: Tier
    replicas: int
    cpu_milli: int
    """What a pod uses."""
    requested_milli: int


class MoveFleet:
    """The script's process, the machines and the controllers. What it has said outlives its process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("fleet of moves")
        self._started = 0
        self._targets: dict[str, str] = {}
        """By pod that moves, the node where its room is."""
        self._lost_at: dict[str, float] = {}
        self.machines = {name: MoveMachine(world, name, CORES, self._on_end) for name in machines(world.plan)}
        self.nodes = {machine.node: ScriptedNode(machine.node, POOL, CORES) for machine in self.machines.values()}
        self.workloads: dict[str, MovedWorkload] = {workload.name: workload for workload in self._drawn()}
        self.hosted: dict[str, HostedPod] = {}
        """Every pod that ever ran, by uid."""
        self._is_quiet = False
        self.files: MovedFiles | None = None
        """Workloads that moves start."""
        if STARTS in world.plan.habits:
            self.files = MovedFiles(world, self)
        self._budgets = ScriptedBudgets(world, self) if BUDGETS in world.plan.habits else None
        world.trace.listen(Kind.STORED, self._on_stored)

    def _drawn(self) -> Sequence[MovedWorkload]:
        rng, size = self._rng, len(self.machines)
        found = []
        for name in ("shop/Deployment/web", "shop/Deployment/api", "jobs/ReplicaSet/index", "jobs/StatefulSet/store"):
            tier = Tier.BATCH if name.startswith("jobs/R") else Tier.PROD
            used = rng.choice((300, 600, 900, 1200))
            found.append(MovedWorkload(name, tier, rng.randint(2, 2 + size), used, rng.choice((200, 500, used))))
        return found

    def compose(self, now: datetime) -> None:
        """Start the first pods: most of them on the first nodes, so that there is something to move."""
        hosts = list(self.machines.values())
        crowded = hosts[: max(1, len(hosts) // 3)]
        for workload in self.workloads.values():
            for place in range(workload.replicas):
                host = self._rng.choice(crowded if self._rng.random() < 0.6 else hosts)
                self._start(workload, host, now - timedelta(seconds=60 + place))
        for machine in hosts:
            self._start_daemon(machine, now)
        self._start(MovedWorkload(BARE, Tier.PROD, 1, 100, 100), self._rng.choice(hosts), now)
        if self.files is not None:
            self.files.compose(now)

    # controllers

    def _start(self, workload: MovedWorkload, machine: MoveMachine, now: datetime) -> None:
        self._started += 1
        namespace, _, name = workload.name.split("/")
        uid = f"{name}-{self._started}"
        pod = Pod(
            uid=uid,
            name=uid,
            namespace=namespace,
            workload=workload.name,
            tier=workload.tier,
            qos=default_qos(workload.tier),
            priority=DEFAULT_PRIORITY[workload.tier],
            request=Resources(workload.requested_milli, GIB),
            started_at=now,
            labels={APP: name} if self._budgets is not None else {},
        )
        self.hosted[uid] = HostedPod(pod, workload.cpu_milli, GIB // 2)
        machine.host(self.hosted[uid])

    def start(self, workload: MovedWorkload, machine: MoveMachine) -> None:
        """Start one more pod there."""
        self._start(workload, machine, self._now(machine))

    def _start_daemon(self, machine: MoveMachine, now: datetime) -> None:
        self._start(MovedWorkload(DAEMON, Tier.PROD, 1, 100, 100), machine, now)

    def running(self, workload: str) -> list[str]:
        """The uids of the pods of a workload that run."""
        return [
            uid for machine in self.machines.values() for uid, p in machine.pods.items() if p.pod.workload == workload
        ]

    def _on_stored(self, step: Step) -> None:
        changed = payload_of(step, MigrationChanged)
        if changed is not None and changed.target_node:
            self._targets[changed.pod_uid] = changed.target_node

    def _on_end(self, hosted: HostedPod) -> None:
        if hosted.pod.workload not in self.workloads:
            return
        drawn = self._rng.random()
        if self._is_quiet:
            self._later(self._rng.uniform(0.5, 2.0), hosted.pod)
        elif drawn < 0.75:
            self._later(self._rng.uniform(0.5, 4.0), hosted.pod)
        elif drawn < 0.92:
            self._later(self._rng.uniform(5.0, 25.0), hosted.pod)

    def _later(self, seconds: float, ended: Pod) -> None:
        self._world.loop.call_later(seconds, self._replace, ended, context=Context())

    def _replace(self, ended: Pod) -> None:
        workload = self.workloads[ended.workload]
        if len(self.running(ended.workload)) >= workload.replicas:
            return
        machine = self._host_for(self._targets.get(ended.uid, ""))
        if machine is None:
            self._later(2.0, ended)
        else:
            self._start(workload, machine, self._now(machine))

    def _host_for(self, target: str) -> MoveMachine | None:
        """The node of the reservation most often, else the one with the least load."""
        open_hosts = [machine for machine in self.machines.values() if machine.is_on and not self._is_closed(machine)]
        reserved = [machine for machine in open_hosts if machine.node == target]
        if reserved and (self._is_quiet or self._rng.random() < 0.8):
            return reserved[0]
        if not open_hosts:
            return None
        if not self._is_quiet and self._rng.random() < 0.3:
            return self._rng.choice(open_hosts)
        return min(open_hosts, key=lambda machine: (machine.load_milli, machine.name))

    def _is_closed(self, machine: MoveMachine) -> bool:
        scheduling = self.nodes[machine.node].events.get(NodeSchedulingChanged)
        return isinstance(scheduling, NodeSchedulingChanged) and scheduling.closed

    def _now(self, machine: MoveMachine) -> datetime:
        return self._world.clock_of(machine.name).now()

    # the script

    async def run(self, process: Process) -> None:
        """Change a node after each pause, until the faults are over; then put all of them right."""
        clock, said_at = process.clock, -AGAIN_SECONDS
        async with self._world.bus(process) as bus:
            while True:
                now = self._world.loop.time()
                self._follow_machines(clock.now())
                if not self._is_quiet and now >= self._world.plan.fault_seconds:
                    self._restore(clock.now())
                elif not self._is_quiet and now > 10.0:
                    self._act(clock.now())
                    if self.files is not None:
                        self.files.act(clock.now())
                if self._budgets is not None:
                    self._budgets.follow(clock.now(), is_quiet=self._is_quiet)
                is_due = now - said_at >= AGAIN_SECONDS
                said_at = now if is_due else said_at
                await self._publish(bus, clock.now(), every=is_due)
                await clock.sleep(self._rng.uniform(*PAUSE_SECONDS))

    def _follow_machines(self, now: datetime) -> None:
        """Describe what is new or back, and what is gone."""
        at = self._world.loop.time()
        for machine in self.machines.values():
            node = self.nodes[machine.node]
            if machine.is_on:
                if node.generation != machine.boot:
                    self._join(machine, node, now)
                self._lost_at.pop(node.name, None)
                continue
            since = self._lost_at.setdefault(node.name, at)
            liveness = node.events.get(NodeLivenessChanged)
            is_known_lost = isinstance(liveness, NodeLivenessChanged) and liveness.liveness is Liveness.LOST
            if at - since >= LOST_SECONDS and NodeDescribed in node.events and not is_known_lost:
                node.note(_liveness(node.name, now, Liveness.LOST))
            if at - since >= DELETED_SECONDS and NodeDescribed in node.events and self._rng.random() < 0.3:
                node.events.clear()
                node.changed.clear()
                node.note(
                    NodeDeleted(node=node.name, reason=DeletionReason.EXPIRED, deleted_by="ingestion", deleted_at=now)
                )

    def _join(self, machine: MoveMachine, node: ScriptedNode, now: datetime) -> None:
        is_first, node.generation = node.generation == 0, machine.boot
        node.events.pop(NodeDeleted, None)
        node.changed.discard(NodeDeleted)
        self.describe(machine, now)
        node.note(_liveness(node.name, now, Liveness.FRESH))
        self._offer(node, now, 0.5)
        if not is_first:
            self._start_daemon(machine, self._now(machine))

    def describe(self, machine: MoveMachine, now: datetime) -> None:
        """Say what a node has: also which workload files."""
        facts = NodeFacts(
            name=machine.node,
            pool=POOL,
            capacity=Resources(CORES * 1000, MEMORY_BYTES),
            reserved=Resources(),
            topology=CpuTopology(CORES, CORES, 1, 1),
            kernel="6.1",
            cgroup_version="v2",
            driver="simulated",
            agent_version="1",
            labels={offered_label(name): digest for name, digest in sorted(machine.starts.files.items())},
        )
        described = NodeDescribed(facts=facts, boot_epoch=str(machine.boot), described_at=now)
        self.nodes[machine.node].note(described)

    def _act(self, now: datetime) -> None:
        act, node = self._rng.choice(_ACTS), self._rng.choice(list(self.nodes.values()))
        if act == "load":
            for hosted in self._rng.sample(list(self.hosted.values()), min(2, len(self.hosted))):
                hosted.cpu_milli = int(hosted.cpu_milli * self._rng.choice((0.5, 0.8, 1.3, 1.6)))
                hosted.cpu_milli = min(max(hosted.cpu_milli, 50), 2500)
        elif act in ("cordon", "uncordon") and NodeDescribed in node.events:
            self._cordon(node, now, is_closed=act == "cordon")
        elif act == "offer" and NodeDescribed in node.events:
            self._offer(node, now, self._rng.choice((0.0, 0.2, 0.5)))
        elif act == "scale":
            workload = self._rng.choice(list(self.workloads.values()))
            machine = self._host_for("")
            if machine is not None and workload.replicas < 8:
                grown = MovedWorkload(
                    workload.name, workload.tier, workload.replicas + 1, workload.cpu_milli, workload.requested_milli
                )
                self.workloads[workload.name] = grown
                self._start(grown, machine, self._now(machine))

    def _restore(self, now: datetime) -> None:
        """Every node is open, and every workload as large as it should be."""
        self._is_quiet = True
        if self.files is not None:
            self.files.restore(now)
        for node in self.nodes.values():
            if NodeDescribed in node.events:
                self._cordon(node, now, is_closed=False)
                self._offer(node, now, 0.5)
        hosts = cycle(self.machines.values())
        for workload in self.workloads.values():
            for _ in range(workload.replicas - len(self.running(workload.name))):
                machine = self._host_for("") or next(hosts)
                if machine.is_on:
                    self._start(workload, machine, self._now(machine))

    def _offer(self, node: ScriptedNode, now: datetime, share: float) -> None:
        before = node.events.get(ResourcesOffered)
        generation = before.generation + 1 if isinstance(before, ResourcesOffered) else 1
        batch = Resources(int(node.cores * 1000 * share), int(MEMORY_BYTES * share))
        node.note(
            ResourcesOffered(
                node=node.name, offered_at=now, generation=generation, batch=batch, degraded=None, decision_ids={}
            )
        )

    def _cordon(self, node: ScriptedNode, now: datetime, *, is_closed: bool) -> None:
        until = now + timedelta(seconds=CORDONED_SECONDS) if is_closed else None
        node.note(
            NodeSchedulingChanged(
                node=node.name, closed=is_closed, reason="", decision_id="", rules=(), since=now, told_at=now,
                valid_until=until,
            )
        )  # fmt: skip

    def _predict(self, machine: MoveMachine, now: datetime) -> PeakPredicted:
        """A tenth above what each pod uses."""
        pods = [
            PodPeak(
                uid=hosted.pod.uid,
                workload=hosted.pod.workload,
                tier=hosted.pod.tier.value,
                peak=Resources(hosted.cpu_milli * 11 // 10, hosted.memory_bytes),
                cold_start=False,
            )
            for hosted in machine.pods.values()
        ]
        prod = sum(peak.peak.cpu_milli for peak in pods if peak.tier == Tier.PROD.value)
        memory = sum(peak.peak.memory_bytes for peak in pods)
        return PeakPredicted(
            node=machine.node,
            predicted_at=now,
            window_number=int(self._world.loop.time()),
            window_seconds=10,
            model="script",
            samples=1,
            cold_start_share=0.0,
            node_peak=Resources(SYSTEM_MILLI + sum(peak.peak.cpu_milli for peak in pods), memory),
            system_peak=Resources(SYSTEM_MILLI, GIB // 4),
            tier_peaks={},
            prod_peak=Resources(prod, memory),
            prod_reclaimable=Resources(),
            pods=tuple(pods),
            decision_id="",
        )

    async def _publish(self, bus: Bus, now: datetime, *, every: bool) -> None:
        """Publish what has changed, or all, until one is not acknowledged."""
        for machine in self.machines.values():
            node = self.nodes[machine.node]
            if every and machine.is_on and NodeDescribed in node.events:
                node.note(self._predict(machine, now))
            for kind in in_order(node.events if every else node.changed):
                try:
                    await bus.publish(event_of(node.events[kind], source=SCRIPT, time=now))
                except SlackwaterError:
                    return
                node.changed.discard(kind)
        if self._budgets is not None:
            await self._budgets.publish(bus, now, every=every)


def _liveness(node: str, now: datetime, liveness: Liveness) -> NodeLivenessChanged:
    return NodeLivenessChanged(node=node, liveness=liveness, previous=None, last_report_at=now, changed_at=now)
