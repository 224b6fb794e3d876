"""The simulated driver: machines that obey limits and weights, under a demand that follows the clock.

What is simulated is the arithmetic of sharing, not a kernel: CPU is divided by water-filling over two levels of
weights (tiers, then pods), no pod gets more than it wants or than its limit. Pressure is what prod wanted and did not
get, as a share of what it wanted, plus what the mere presence of others costs; the factor of the latter was measured
on a virtual machine with two CPUs. Everything follows from the seed and the clock. Values end with the process.
"""

from __future__ import annotations

import math
import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from slackwater.agent.adapters.simulated_load import RESUBMITTED_SECONDS, Load, batch_demand, prod_load
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT, milli
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.controls.memory_high import MEMORY_HIGH
from slackwater.agent.domain.host_apps import HostApplication
from slackwater.agent.domain.knobs import ContainerOf, Knob, KnobSpec, Target, Tree, Value
from slackwater.agent.domain.samples import HostSample
from slackwater.agent.domain.simulated_faults import TAINT, ZONE, FleetFault, failed_pods, with_faults, zone_of
from slackwater.agent.domain.weights import IDLE_SHARES
from slackwater.agent.ports import PodSample, PsiTotals, RawSample
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.nodes import CpuTopology, NodeFacts, PodDetail
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos
from slackwater.model.time import Clock
from slackwater.model.workload_labels import TEMPLATE_LABEL, digest_of
from slackwater.runtime.version import version

SERVICE_SECONDS = 0.008
_OWN_PRESSURE, _NEIGHBOUR_PRESSURE = 0.02, 0.30
_GIB = 1 << 30
_WEIGHT_OF_IDLE = 3
"""What a group that is scheduled as idle weighs: as in the kernel (WEIGHT_IDLEPRIO)."""
_CFS_PERIOD_SECONDS = 0.1
_HOST_APP_SHARE, _HOST_APP_BYTES = 0.05, _GIB // 2
"""What every host application takes of the machine, before any pod has some."""


@dataclass(frozen=True, slots=True)
class CpuClaim:
    """One pod's claim on the CPU: `demand`, capped by `limit` (None = unlimited), in milli-cores."""

    key: str
    tier: Tier
    demand: float
    weight: int
    limit: float | None = None

    @property
    def wanted(self) -> float:
        return self.demand if self.limit is None else min(self.demand, self.limit)


@dataclass(frozen=True, slots=True)
class Shares:
    """Usage by pod in milli-cores, the share of time prod waited (0..1) and its estimated p99 in seconds."""

    usage: Mapping[str, float]
    prod_pressure: float
    prod_p99_seconds: float


def fill(capacity: float, demands: Mapping[str, float], weights: Mapping[str, int]) -> dict[str, float]:
    """Water-filling: in proportion to the weights, none above its demand; the rest goes to the others."""
    got = dict.fromkeys(demands, 0.0)
    open_keys, left = {key for key, amount in demands.items() if amount > 0}, max(0.0, capacity)
    while open_keys:
        total = sum(weights[key] for key in open_keys)
        level = left / total
        content = {key for key in open_keys if demands[key] <= weights[key] * level}
        if not content:
            for key in open_keys:
                got[key] = weights[key] * level
            break
        for key in content:
            got[key] = demands[key]
            left = max(0.0, left - demands[key])
        open_keys -= content
    return got


def divide(capacity: float, claims: Sequence[CpuClaim], tier_weights: Mapping[Tier, int]) -> dict[str, float]:
    """CPU of every claim: over the tiers first, within a tier over its claims. Never more than capacity in sum."""
    tiers = {claim.tier for claim in claims}
    demands = {tier.value: sum(claim.wanted for claim in claims if claim.tier is tier) for tier in tiers}
    per_tier = fill(capacity, demands, {tier.value: tier_weights[tier] for tier in tiers})
    got: dict[str, float] = {}
    for tier in tiers:
        members = [claim for claim in claims if claim.tier is tier]
        got |= fill(
            per_tier[tier.value],
            {claim.key: claim.wanted for claim in members},
            {claim.key: claim.weight for claim in members},
        )
    return got


def settle(capacity: float, cpus: int, claims: Sequence[CpuClaim], tier_weights: Mapping[Tier, int]) -> Shares:
    """Usage of every claim, and prod's pressure and latency.

    Pressure: unmet/wanted + 0.02 u + 0.30 u b, with u and b what prod and the others use of the capacity.
    p99: s/(1-p) x (1 + ln 100 x r^(sqrt(2(c+1))-1) / (c (1-r))): the waiting of Sakasegawa's approximation for c
    servers with an exponential tail, r = prod's demand over what it could get at most, s = 8 ms of work.
    """
    usage = divide(capacity, claims, tier_weights)
    prod = [claim for claim in claims if claim.tier is Tier.PROD]
    demand = sum(claim.wanted for claim in prod)
    if demand < 1e-3:  # a milli-core of a thousandth: nothing is wanted
        return Shares(usage, 0.0, SERVICE_SECONDS)
    got = sum(usage[claim.key] for claim in prod)
    others = sum(usage.values()) - got
    unmet = max(0.0, demand - got) / demand
    own, beside = got / capacity, others / capacity
    pressure = min(1.0, unmet + _OWN_PRESSURE * own + _NEIGHBOUR_PRESSURE * own * beside)
    greedy = [CpuClaim(c.key, c.tier, capacity if c.tier is Tier.PROD else c.demand, c.weight, c.limit) for c in claims]
    reach = divide(capacity, greedy, tier_weights)
    busy = min(0.98, demand / max(1.0, sum(reach[claim.key] for claim in prod)))
    waiting = math.log(100) * busy ** (math.sqrt(2 * (cpus + 1)) - 1) / (cpus * (1 - busy))
    return Shares(usage, pressure, SERVICE_SECONDS / max(0.02, 1 - pressure) * (1 + waiting))


FLEET: Final[Mapping[str, tuple[Tier, int]]] = {
    "quotes": (Tier.PROD, 300),
    "orders": (Tier.PROD, 200),
    "crunch": (Tier.BATCH, 150),
    "index": (Tier.BATCH, 100),
}
"""The same on every node: two prod services, two greedy batch jobs; with what each requests per CPU, in milli-cores."""
DAY_REQUESTS: Final[Mapping[str, int]] = {"quotes": 180, "orders": 120, "crunch": 120, "index": 80}
"""What they request by day: prod more than its rhythm uses, batch what the offer has beside that."""
GREEDY: Final = "crunch"
"""The batch job that by day wants more than it requested while its machine surges."""
_LABELS: Final = {workload: {TEMPLATE_LABEL: digest_of(workload.encode())} for workload in FLEET}


def requested_per_cpu(workload: str, load: Load) -> int:
    """Milli-cores that a pod of a workload requests for each CPU of its machine."""
    return DAY_REQUESTS[workload] if load == "day" else FLEET[workload][1]


def fleet_pods(node: str, cpus: int, started_at: datetime, load: Load = "tide") -> tuple[Pod, ...]:
    """The pods of a machine at first."""
    return tuple(
        fleet_pod(workload, cpus, started_at, f"{node}-{workload}", f"{workload}-{node}", load=load)
        for workload in FLEET
    )


def fleet_pod(
    workload: str,
    cpus: int,
    started_at: datetime,
    uid: str,
    name: str,
    labels: Mapping[str, str] | None = None,
    load: Load = "tide",
) -> Pod:
    """A pod of a workload of the fleet, as from a workload file that every machine has."""
    tier = FLEET[workload][0]
    return Pod(
        uid=uid,
        name=name,
        namespace="default",
        workload=workload,
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(requested_per_cpu(workload, load) * cpus, _GIB),
        started_at=started_at,
        labels={**_LABELS[workload], **labels} if labels else _LABELS[workload],
    )


@dataclass(slots=True)
class SimulatedDriver:
    """One machine. See `slackwater.agent.ports.Driver` for what each method promises."""

    node: str
    seed: int
    clock: Clock
    cpus: int = 8
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    host_apps: tuple[HostApplication, ...] = ()
    knobs: tuple[KnobSpec, ...] = KNOBS
    faults: frozenset[FleetFault] = frozenset()
    is_spare: bool = False
    """It runs no pods."""
    load: Load = "tide"
    _failed: dict[str, Pod] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)
    _texts: dict[Knob, str] = field(default_factory=dict)
    _cpu_ns: dict[str, float] = field(default_factory=dict)
    _periods: dict[str, tuple[float, float]] = field(default_factory=dict)
    _waited_us: float = 0.0
    _busy_ns: float = 0.0
    _app_ns: float = 0.0
    _last: float | None = None
    _greedy_ended: float | None = None
    _jobs: int = 0

    def open(self) -> None:
        pods = () if self.is_spare else fleet_pods(self.node, self.cpus, self.started_at, self.load)
        self._failed |= {pod.uid: pod for pod in failed_pods(pods, self.faults)}
        for spec in self.knobs:
            for target in (*Tier, *Tree):
                self._texts[self._knob(spec, target)] = spec.plain_text(spec.default)
        for pod in with_faults(pods, self.faults, zone_of(self.seed)):
            self.begin(pod)

    def begin(self, pod: Pod) -> None:
        """Let a pod run."""
        self._pods[pod.uid] = pod
        for spec in self.knobs:
            self._texts[self._knob(spec, pod.uid)] = spec.plain_text(spec.default)
        self._texts[self._knob(CPU_WEIGHT, pod.uid)] = str(pod.request.cpu_milli * 1024 // 1000)

    def close(self) -> None:
        self._pods.clear()
        self._texts.clear()

    def facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.node,
            pool="simulated",
            capacity=Resources(self.cpus * 1000, 32 * _GIB),
            reserved=Resources(),
            topology=CpuTopology(self.cpus, self.cpus, 1, 1),
            kernel="simulated",
            cgroup_version="none",
            driver="simulated",
            agent_version=version(),
            labels={ZONE: zone_of(self.seed)},
            taints=(TAINT,) if FleetFault.TAINTED in self.faults else (),
            resources={"pods": 110},
            reports=tuple(PodDetail),
        )

    def pods(self) -> tuple[Pod, ...]:
        return tuple(self._pods[uid] for uid in sorted(self._pods))

    def shares(self) -> Shares:
        """Usage of every pod at this moment under the present limits and weights."""
        at = self.clock.now()
        load = prod_load(self.seed, at, self.load)
        total = sum(pod.request.cpu_milli for pod in self._pods.values() if pod.tier is Tier.PROD) or 1
        capacity = self.cpus * 1000.0 - self._apps_milli() * len(self.host_apps)
        claims = []
        for pod in self.pods():
            demand = load * capacity * pod.request.cpu_milli / total
            if pod.tier is not Tier.PROD:
                is_greedy = pod.workload == GREEDY
                demand = batch_demand(self.seed, pod.request.cpu_milli, is_greedy, at, self.load, capacity)
            limit = milli(self._value(CPU_LIMIT, pod.uid))
            claims.append(CpuClaim(pod.uid, pod.tier, demand, self._weight(pod.uid), limit))
        return settle(capacity, self.cpus, claims, {tier: self._weight(tier) for tier in Tier})

    def kubelet(self) -> None:
        """None: a simulated machine has no kubelet."""

    def sample(self) -> RawSample:
        now = self.clock.monotonic()
        passed = 0.0 if self._last is None else now - self._last
        self._last = now
        self._resubmit(now)
        shares = self.shares()
        self._waited_us += shares.prod_pressure * passed * 1e6
        self._app_ns += self._apps_milli() * 1e6 * passed
        apps = tuple(HostSample(app.name, app.tier, round(self._app_ns), _HOST_APP_BYTES) for app in self.host_apps)
        self._busy_ns += (sum(shares.usage.values()) + self._apps_milli() * len(apps)) * 1e6 * passed
        pods = tuple(self._advance(pod, shares.usage[pod.uid], passed) for pod in self.pods())
        psi = PsiTotals(cpu_some_us=round(self._waited_us))
        memory = sum(pod.memory_bytes or 0 for pod in pods) + sum(app.memory_bytes for app in apps)
        return RawSample(
            now,
            self.clock.now(),
            round(self._busy_ns),
            memory,
            psi,
            {Tier.PROD: psi},
            pods,
            host_apps=apps,
            failed_pods=tuple(self._failed.values()),
        )

    def _resubmit(self, now: float) -> None:
        """By day a job that has ended, evicted or moved, is followed by the next."""
        if self.load != "day" or self.is_spare or any(pod.workload == GREEDY for pod in self._pods.values()):
            self._greedy_ended = None
        elif self._greedy_ended is None:
            self._greedy_ended = now
        elif now - self._greedy_ended >= RESUBMITTED_SECONDS:
            self._jobs += 1
            name = f"{GREEDY}-{self.node}-{self._jobs + 1}"
            uid = f"{self.node}-{GREEDY}-{self._jobs + 1}"
            self.begin(fleet_pod(GREEDY, self.cpus, self.clock.now(), uid, name, load=self.load))

    def glance(self) -> None:
        """None: the load changes with the tide, not between two samples."""

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        return self._known(self._knob(spec, target))

    def render(self, knob: Knob, value: Value) -> str:
        return self._spec(knob).plain_text(value)

    def parse(self, knob: Knob, text: str) -> Value:
        return self._spec(knob).plain_value(text)

    def read(self, knob: Knob) -> str:
        return self._texts[self._known(knob)]

    def write(self, knob: Knob, text: str) -> None:
        self._known(knob)
        try:
            self._spec(knob).plain_value(text)
        except ValueError as error:
            raise Misconfigured(f"{knob.path}: {error}", code="write_refused", field=knob.path) from error
        self._texts[knob] = text

    def alive(self, pod_uid: str) -> bool:
        return pod_uid in self._pods or pod_uid in self._failed

    def terminate(self, pod_uid: str, signal: int) -> None:
        self._failed.pop(pod_uid, None)
        if signal in (signals.SIGTERM, signals.SIGKILL) and self._pods.pop(pod_uid, None) is not None:
            for spec in self.knobs:
                del self._texts[self._knob(spec, pod_uid)]

    def protected(self, pod_uid: str) -> str | None:
        pod = self._pods.get(pod_uid)
        return "pods of QoS class SYSTEM are never evicted" if pod and pod.qos is QoSClass.SYSTEM else None

    def _advance(self, pod: Pod, used: float, passed: float) -> PodSample:
        self._cpu_ns[pod.uid] = self._cpu_ns.get(pod.uid, 0.0) + used * 1e6 * passed
        limit = milli(self._value(CPU_LIMIT, pod.uid))
        stopped = limit is not None and used >= limit - 1e-6
        periods, throttled = self._periods.get(pod.uid, (0.0, 0.0))
        step = passed / _CFS_PERIOD_SECONDS if limit is not None else 0.0
        self._periods[pod.uid] = (periods + step, throttled + (step if stopped else 0.0))
        counted = tuple(round(value) for value in self._periods[pod.uid])
        psi = PsiTotals(cpu_some_us=round(self._waited_us) if pod.tier is Tier.PROD else None)
        return PodSample(
            pod.uid,
            round(self._cpu_ns[pod.uid]),
            pod.request.memory_bytes // 2,
            psi,
            counted[0],
            counted[1],
            self._cache_bytes(pod),
        )

    def _cache_bytes(self, pod: Pod) -> int:
        """A pod reads files of a quarter of its requested memory; the kernel keeps what its upper level allows."""
        high, held = milli(self._value(MEMORY_HIGH, pod.uid)), pod.request.memory_bytes // 2
        read = pod.request.memory_bytes // 4
        return read if high is None else max(0, min(read, high - held))

    def _apps_milli(self) -> float:
        return self.cpus * 1000 * _HOST_APP_SHARE

    def _weight(self, target: str | Tier) -> int:
        value = self._value(CPU_WEIGHT, target)
        return _WEIGHT_OF_IDLE if value == IDLE_SHARES else int(value or 0)

    def _value(self, spec: KnobSpec, target: Target) -> Value:
        return spec.plain_value(self.read(self._knob(spec, target)))

    def _knob(self, spec: KnobSpec, target: Target) -> Knob:
        if isinstance(target, ContainerOf):
            raise NotFound(f"{self.node} has no containers", field=target.name)
        return Knob(f"{self.node}/{target if isinstance(target, str) else target.value}", spec.name)

    def _spec(self, knob: Knob) -> KnobSpec:
        return next(spec for spec in self.knobs if spec.name == knob.field)

    def _known(self, knob: Knob) -> Knob:
        if knob not in self._texts:
            raise NotFound(f"{knob.path} is not (any more) on this machine", field=knob.path)
        return knob
