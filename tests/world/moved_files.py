"""Workloads of a world of moves that no controller replaces: nodes have files of them, and a move starts them.

Digests differ on some nodes, and files change during the faults. What is lost without a move, an operator starts by
hand after a while.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Protocol

from tests.world.move_machines import HostedPod, MoveMachine
from tests.world.plan import MIGRATION
from tests.world.scripted_fleet import ScriptedNode
from tests.world.world import World

from slackwater.events.intent_declared import WorkloadStart
from slackwater.events.node_described import NodeDescribed
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.model.workload_labels import START_LABEL, TEMPLATE_LABEL
from slackwater.podmigration.jobs import MigrationStep

NAMESPACE: Final = "apps"
FILES: Final = ("relay", "mailer", "ledger")
"""Workloads are named as their files."""
OTHER_DIGEST: Final = "other"
GIB: Final = 1 << 30
CHANGED_SHARE, BY_HAND_SHARE = 0.12, 0.15


class DescribedFleet(Protocol):
    """The machines, what is said of them, and every pod that ever ran."""

    machines: dict[str, MoveMachine]
    nodes: dict[str, ScriptedNode]
    hosted: dict[str, HostedPod]

    def describe(self, machine: MoveMachine, now: datetime) -> None: ...


class MovedFiles:
    """The files, and the pods that were started from them."""

    def __init__(self, world: World, fleet: DescribedFleet) -> None:
        self._world = world
        self._fleet = fleet
        self._rng = world.random("workload files")
        self._started = 0
        self._as_drawn: dict[str, dict[str, str]] = {}
        self._replicas: dict[str, int] = {}

    def compose(self, now: datetime) -> None:
        """Write the files, and start one or two pods of each workload where its file is."""
        machines = list(self._fleet.machines.values())
        for workload in FILES[: self._rng.randint(2, len(FILES))]:
            hosts = self._rng.sample(machines, max(2, round(self._rng.uniform(0.5, 1.0) * len(machines))))
            for machine in hosts:
                is_other = self._rng.random() < 0.1 and machine is not hosts[0]
                machine.starts.files[workload] = OTHER_DIGEST if is_other else _digest(workload)
            self._replicas[workload] = self._rng.choice((1, 1, 2))
            for host in hosts[: self._replicas[workload]]:
                if host.starts.files[workload] != OTHER_DIGEST:
                    host.host(self._pod(workload, host, now - timedelta(seconds=60), ""))
        self._as_drawn = {machine.name: dict(machine.starts.files) for machine in machines}
        for machine in machines:
            machine.launched = self._launched

    def running(self) -> list[str]:
        """The uids of pods that run."""
        return [
            uid for machine in self._fleet.machines.values() for uid, p in machine.pods.items() if is_of_a_file(p.pod)
        ]

    def has(self, uid: str) -> bool:
        """Whether a pod is of one of these workloads."""
        return uid in self._fleet.hosted and is_of_a_file(self._fleet.hosted[uid].pod)

    def _launched(self, machine: MoveMachine, item: WorkloadStart) -> HostedPod:
        return self._pod(item.workload, machine, self._world.clock_of(machine.name).now(), item.id)

    def _pod(self, workload: str, machine: MoveMachine, now: datetime, start: str) -> HostedPod:
        self._started += 1
        tier = Tier.BATCH if workload == FILES[-1] else Tier.PROD
        labels = {TEMPLATE_LABEL: machine.starts.files[workload]} | ({START_LABEL: start} if start else {})
        uid = f"{workload}-{self._started}"
        pod = Pod(
            uid=uid,
            name=uid,
            namespace=NAMESPACE,
            workload=workload,
            tier=tier,
            qos=default_qos(tier),
            priority=DEFAULT_PRIORITY[tier],
            request=Resources(200, GIB),
            started_at=now,
            labels=labels,
        )
        hosted = self._fleet.hosted[uid] = HostedPod(pod, 200, GIB // 4)
        return hosted

    def _start_by_hand(self) -> None:
        """Where no move is under way: it could start the same workload."""
        jobs = self._world.postgres.schemas[MIGRATION].tables["jobs"]
        place = jobs.definition.names.index("document")
        moved = {
            row[place].content["pod"]["workload"]
            for row in jobs.committed()
            if row[place].content["job"]["step"] != MigrationStep.ENDED
        }
        running = [self._fleet.hosted[uid].pod.workload for uid in self.running()]
        for workload, replicas in self._replicas.items():
            hosts = [
                machine
                for machine in self._fleet.machines.values()
                if machine.is_on and machine.starts.files.get(workload) == _digest(workload)
            ]
            if hosts and workload not in moved and running.count(workload) < replicas:
                host = self._rng.choice(hosts)
                host.host(self._pod(workload, host, self._world.clock_of(host.name).now(), ""))

    def act(self, now: datetime) -> None:
        """Now and then the file of a node changes, is gone, or is as it was."""
        if self._rng.random() < BY_HAND_SHARE:
            self._start_by_hand()
        if self._rng.random() >= CHANGED_SHARE:
            return
        machine = self._rng.choice(list(self._fleet.machines.values()))
        workload = self._rng.choice(FILES)
        if self._rng.random() < 0.5:
            machine.starts.files = dict(self._as_drawn[machine.name])
        elif self._rng.random() < 0.5:
            machine.starts.files.pop(workload, None)
        else:
            machine.starts.files[workload] = OTHER_DIGEST
        self._describe(machine, now)

    def restore(self, now: datetime) -> None:
        """Every file is as it was drawn."""
        for machine in self._fleet.machines.values():
            machine.starts.files = dict(self._as_drawn[machine.name])
            self._describe(machine, now)

    def _describe(self, machine: MoveMachine, now: datetime) -> None:
        if NodeDescribed in self._fleet.nodes[machine.node].events:
            self._fleet.describe(machine, now)


def is_of_a_file(pod: Pod) -> bool:
    """Whether a move starts the replacement of a pod."""
    return TEMPLATE_LABEL in pod.labels


def _digest(workload: str) -> str:
    return f"digest-of-{workload}"
