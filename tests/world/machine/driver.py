"""The Driver port on a simulated machine: one instance per process of the agent, over files that outlive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.world.machine.machine import ROOT, Machine, Running
from tests.world.refusals import BUDGET_REFUSAL, is_selected

from slackwater.agent.adapters.linux.knob_files import KnobFiles
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.knobs import ContainerOf, Knob, KnobSpec, Target, Tree, Value
from slackwater.agent.domain.samples import PodSample, PsiTotals, RawSample
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier


@dataclass(slots=True)
class MachineLock:
    """slackwater.agent.ports.Lock of one process of the agent: held on the machine, free when the process is gone."""

    machine: Machine
    _is_held: bool = False

    def acquire(self) -> None:
        if self.machine.agent_is_up:
            raise Conflict(f"another agent already works on {self.machine.name}")
        self.machine.agent_is_up = self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self.machine.agent_is_up = self._is_held = False


@dataclass(slots=True)
class MachineDriver:
    """See slackwater.agent.ports.Driver. Knobs are read and written by the linux driver's own KnobFiles."""

    machine: Machine
    pool: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    knobs: tuple[KnobSpec, ...] = KNOBS
    opened: Callable[[], None] = lambda: None
    layout: Layout = field(init=False)
    _files: KnobFiles = field(init=False)
    _known: dict[tuple[str, Target], Knob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        machine = self.machine
        instance = ROOT.removeprefix("slackwater-")
        self.layout = Layout(machine.kernel.hierarchy, instance, Path("/state/agent"), machine.hardware.cpus)
        self._files = KnobFiles(self.layout, self.knobs, machine.kernel)

    def open(self) -> None:
        self.opened()
        self.machine.make_tiers()

    def close(self) -> None:
        self.machine.remove_tiers()

    def facts(self) -> NodeFacts:
        hardware = self.machine.hardware
        return NodeFacts(
            name=self.machine.name,
            pool=self.pool,
            capacity=Resources(hardware.cpus * 1000, hardware.memory_bytes),
            reserved=Resources(),
            topology=CpuTopology(hardware.cpus, hardware.cpus, 1, 1),
            kernel="6.18-world",
            cgroup_version="v2" if hardware.pure_v2 else "v1",
            driver="world",
            agent_version="0",
            labels=dict(self.labels),
        )

    def pods(self) -> tuple[Pod, ...]:
        return self.machine.described_pods()

    def kubelet(self) -> None:
        """None: the cgroups are the agent's own."""

    def sample(self) -> RawSample:
        pods = tuple(_sample_of(running) for running in self.machine.running())
        return self._stamped(pods, round(self.machine.prod_refault_bytes))

    def glance(self) -> RawSample:
        self.machine.settle()
        return self._stamped((), None)

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        known = self._known.get((spec.name, target))
        if known is not None and (not isinstance(target, str) or target in self.machine.pods):
            return known
        if isinstance(target, ContainerOf):
            raise NotFound("a pod of this machine has no containers", field=target.name)
        if isinstance(target, Tree):
            cgroup = self.layout.root
        elif isinstance(target, Tier):
            cgroup = self.layout.tier(target)
        else:
            cgroup = self._running(target).group.name
        knob = self._known[(spec.name, target)] = self._files.knob(spec, cgroup)
        return knob

    def render(self, knob: Knob, value: Value) -> str:
        return self._files.render(knob, value)

    def parse(self, knob: Knob, text: str) -> Value:
        return self._files.parse(knob, text)

    def read(self, knob: Knob) -> str:
        return self._files.read(knob)

    def write(self, knob: Knob, text: str) -> None:
        self._files.write(knob, text)

    def alive(self, pod_uid: str) -> bool:
        self.machine.settle()
        return pod_uid in self.machine.pods

    def terminate(self, pod_uid: str, signal: int) -> None:
        self.machine.signal(pod_uid, signal)

    def protected(self, pod_uid: str) -> str | None:
        running = self.machine.pods.get(pod_uid)
        if running is None:
            return None
        budget = BUDGET_REFUSAL if is_selected(pod_uid, self.machine.budgeted) else None
        return self.machine.protection(running) or budget

    def _running(self, uid: str) -> Running:
        running = self.machine.pods.get(uid)
        if running is None:
            raise NotFound(f"pod {uid} is not (any more) on {self.machine.name}", field="pod_uid")
        return running

    def _stamped(self, pods: tuple[PodSample, ...], refaults: int | None) -> RawSample:
        machine = self.machine
        held = machine.hardware.system_bytes + sum(running.group.anonymous for running in machine.running())
        node = PsiTotals(round(machine.node_waited_us), round(machine.node_paged_us), 0)
        prod = PsiTotals(round(machine.prod_waited_us), round(machine.prod_paged_us), 0)
        return RawSample(
            machine.clock.monotonic(),
            machine.clock.now(),
            node_cpu_busy_ns=round(machine.busy_ns),
            node_memory_bytes=held,
            node_psi=node,
            tier_psi={Tier.PROD: prod},
            pods=pods,
            prod_refault_bytes=refaults,
        )


def _sample_of(running: Running) -> PodSample:
    group = running.group
    return PodSample(
        running.pod.uid,
        round(running.cpu_ns),
        group.anonymous,
        PsiTotals(round(running.waited_us), round(running.paged_us), 0),
        int(running.periods),
        int(running.throttled),
        group.cache,
    )
