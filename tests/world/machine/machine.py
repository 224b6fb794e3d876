"""One machine: its kernel, the pods on it, and what they use of CPU and memory as virtual time goes on.

The machine outlives its agent's processes. Usage is brought up to the present when something looks at it or changes
it, so that an idle machine costs nothing. All of it follows from the calls and their times.
"""

from __future__ import annotations

import math
import signal as signals
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.world.machine.cgroups import PAGE, Group
from tests.world.machine.kernel import FOREIGN, Kernel, Write
from tests.world.machine.load import Load

from slackwater.agent.adapters.simulated import fill
from slackwater.agent.domain.admission import memory_limit_bytes
from slackwater.agent.domain.weights import shares_of_request, weight_of_shares
from slackwater.model.pods import Pod
from slackwater.model.tiers import QoSClass, Tier
from slackwater.model.time import Clock
from slackwater.waterline.facts.eviction_marks import AGENT as AGENT_MARK
from slackwater.waterline.facts.eviction_marks import PROTECTED

_OWN_PRESSURE = 0.02
"""As in slackwater.agent.adapters.simulated: what prod waits although it gets what it wants."""
_REREAD_PER_SECOND = 0.2
"""Share of the missing page cache that a pod reads again in a second."""
_MOST_STEP_SECONDS = 5.0
_GIB = 1 << 30
ROOT = "slackwater-world"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Capacity of a machine, and what its own software uses."""

    cpus: int = 8
    memory_bytes: int = 32 * _GIB
    pure_v2: bool = True
    system_milli: int = 200
    neighbour_pressure: float = 0.30
    """What the presence of others costs prod, as in slackwater.agent.adapters.simulated; caches and memory bandwidth
    differ by machine."""
    system_bytes: int = _GIB


KILLED, TERMINATED = SIGNALLED = ("killed", "terminated")
"""How a pod ends that gets a signal."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that happened on the machine: `kind` is pod_started, pod_ended or signal. `what` is the number of the
    signal, or how the pod ended."""

    kind: str
    pod: Pod
    what: str = ""
    is_protected: bool = False


@dataclass(slots=True, eq=False)
class Running:
    """A pod with processes. `ends_at` is the virtual time of its end as far as it is known."""

    pod: Pod
    load: Load
    group: Group
    since: float
    ends_at: float
    ends_because: str = "ended by itself"
    share: float = 1.0
    cpu_ns: float = 0.0
    periods: float = 0.0
    throttled: float = 0.0
    waited_us: float = 0.0
    paged_us: float = 0.0
    is_held: bool = False
    """Paused by the kernel at its memory limit."""
    holds_agent: bool = False


@dataclass(slots=True, eq=False)
class Machine:
    """`time` is virtual time, `clock` the machine's own, which may be wrong. Observers get writes and effects."""

    name: str
    time: Callable[[], float]
    clock: Clock
    hardware: Hardware = field(default_factory=Hardware)
    on_write: Callable[[Write], None] = lambda write: None
    on_effect: Callable[[Effect], None] = lambda effect: None
    boots: int = 1
    budgeted: float = 0.0
    """The share of pods that a disruption budget selects (tests.world.refusals)."""
    kernel: Kernel = field(init=False)
    pods: dict[str, Running] = field(default_factory=dict)
    busy_ns: float = 0.0
    prod_waited_us: float = 0.0
    prod_paged_us: float = 0.0
    node_waited_us: float = 0.0
    node_paged_us: float = 0.0
    prod_refault_bytes: float = 0.0
    oom_kills: int = 0
    agent_is_up: bool = False
    _load_at: float | None = None
    _settled_at: float = 0.0
    _next_end: float = math.inf
    _ordered: tuple[Running, ...] = ()

    def __post_init__(self) -> None:
        self.kernel = Kernel(self.hardware.pure_v2, self.settle, wrote=self._wrote)
        self._settled_at = self.time()

    def _wrote(self, write: Write) -> None:
        self.on_write(write)

    # pods

    def start(self, pod: Pod, load: Load, *, holds_agent: bool = False) -> Running:
        """Start a pod in its cgroup, as `slackwater exec` does: with its weight and, by tier, its hard memory limit."""
        self.settle()
        self.make_tiers()
        group = self.kernel.make(f"{ROOT}/{pod.tier.value}/{pod.uid}")
        group.shares = shares_of_request(pod.request.cpu_milli)
        group.weight = weight_of_shares(group.shares)
        limit = memory_limit_bytes(pod)
        group.limit = None if limit is None else limit // PAGE * PAGE
        now = self.time()
        running = Running(pod, load, group, now, load.ends_at, holds_agent=holds_agent)
        self.pods[pod.uid] = running
        self._reorder()
        self._update_memory(0.0)
        self.on_effect(Effect("pod_started", pod))
        return running

    def make_tiers(self) -> None:
        """The instance's root and tiers, if they are not there."""
        if self.kernel.group(ROOT) is None:
            root = self.kernel.make(ROOT)
            root.shares = min(262_144, 1024 * self.hardware.cpus)
            root.weight = weight_of_shares(root.shares)
            for tier in Tier:
                self.kernel.make(f"{ROOT}/{tier.value}")

    def remove_tiers(self) -> None:
        """Remove what no pod uses."""
        for tier in Tier:
            self.kernel.remove(f"{ROOT}/{tier.value}")
        self.kernel.remove(ROOT)

    def signal(self, uid: str, number: int) -> None:
        """Send a signal to all processes of a pod."""
        running = self.pods.get(uid)
        if running is None:
            return
        self.settle()
        if uid not in self.pods:
            return
        self.on_effect(Effect("signal", running.pod, str(int(number)), self.protection(running) is not None))
        now, load = self.time(), running.load
        if number == signals.SIGKILL:
            self._end_by(running, now + load.kill_seconds, KILLED)
        elif load.forks:
            running.share = 0.1
        elif not load.ignores_term:
            self._end_by(running, now + load.term_seconds, TERMINATED)

    def protection(self, running: Running) -> str | None:
        """Why a pod must not be evicted, or None."""
        if running.pod.qos is QoSClass.SYSTEM:
            return "pods of QoS class SYSTEM are never evicted"
        return "the agent itself runs in this pod" if running.holds_agent else None

    def end(self, uid: str, because: str = "removed by its owner") -> None:
        """End a pod at once, with its cgroup."""
        self.settle()
        running = self.pods.pop(uid, None)
        if running is not None:
            self._forget(running, because)

    def reboot(self) -> None:
        """Power failure and boot: no pod, no cgroup and no counter is left."""
        self.settle()
        for running in list(self.pods.values()):
            del self.pods[running.pod.uid]
            self._forget(running, "machine rebooted")
        self.kernel.clear()
        self.boots += 1
        self.busy_ns = self.prod_waited_us = self.prod_paged_us = 0.0
        self.node_waited_us = self.node_paged_us = self.prod_refault_bytes = 0.0

    def described_pods(self) -> tuple[Pod, ...]:
        """The pods as the agent sees them, in uid order."""
        self.settle()
        return tuple(_marked(running) if running.holds_agent else running.pod for running in self._ordered)

    def running(self) -> tuple[Running, ...]:
        """The pods in uid order, as they are now."""
        self.settle()
        return self._ordered

    def hold_load(self) -> None:
        """From here on every pod wants what it wants now."""
        self.settle()
        self._load_at = self.time()

    # files

    def write_foreign(self, path: str, text: str) -> bool:
        """Write as a program that is not of Slackwater; whether the kernel took it."""
        try:
            self.kernel.write_as(FOREIGN, path, text)
        except OSError:
            return False
        return True

    # time

    def settle(self) -> None:
        """Bring usage up to the present; pods end on the way."""
        now = self.time()
        while now > self._settled_at:
            until = min(now, self._next_end, self._settled_at + _MOST_STEP_SECONDS)
            if until > self._settled_at:
                seconds, self._settled_at = until - self._settled_at, until
                self._use_cpu(until, seconds)
                self._update_memory(seconds)
            if until >= self._next_end:
                self._end_due(until)
        if now >= self._next_end:
            self._end_due(now)

    def _end_by(self, running: Running, at: float, because: str) -> None:
        if at < running.ends_at:
            running.ends_at, running.ends_because = at, because
        self._reorder()
        if self._next_end <= self.time():
            self._end_due(self.time())

    def _end_due(self, now: float) -> None:
        for running in [running for running in self._ordered if running.ends_at <= now]:
            del self.pods[running.pod.uid]
            self._forget(running, running.ends_because)

    def _forget(self, running: Running, because: str) -> None:
        self.kernel.remove(running.group.name)
        self._reorder()
        self.on_effect(Effect("pod_ended", running.pod, because))

    def _reorder(self) -> None:
        self._ordered = tuple(self.pods[uid] for uid in sorted(self.pods))
        self._next_end = min((running.ends_at for running in self._ordered), default=math.inf)

    # CPU

    def _use_cpu(self, now: float, seconds: float) -> None:
        """Advance all counters by one interval; demand is that of its end."""
        pods = self._ordered
        if self._load_at is not None:
            now = self._load_at
        asked = [0.0 if pod.is_held else pod.load.cpu(now) * pod.share for pod in pods]
        limits = [pod.group.cpu_limit_milli for pod in pods]
        wanted = [want if limit is None else min(want, limit) for want, limit in zip(asked, limits, strict=True)]
        capacity = self.hardware.cpus * 1000.0 - self.hardware.system_milli
        used = self._divided(capacity, wanted)
        total = sum(used)
        self.busy_ns += (total + self.hardware.system_milli) * 1e6 * seconds
        prod_wanted = prod_used = 0.0
        for pod, want, got, limit, ask in zip(pods, wanted, used, limits, asked, strict=True):
            pod.cpu_ns += got * 1e6 * seconds
            pod.group.cpu_ns = int(pod.cpu_ns)
            if want > 0:
                pod.waited_us += min(1.0, (want - got) / want) * seconds * 1e6
            if limit is not None:
                step = seconds * 1e6 / pod.group.period_us
                pod.periods += step
                pod.throttled += step if ask > limit else 0.0
                pod.group.periods, pod.group.throttled_periods = int(pod.periods), int(pod.throttled)
            if pod.pod.tier is Tier.PROD:
                prod_wanted += want
                prod_used += got
        self._wait(capacity, prod_wanted, prod_used, total, seconds)

    def _wait(self, capacity: float, prod_wanted: float, prod_used: float, total: float, seconds: float) -> None:
        own, beside = prod_used / capacity, (total - prod_used) / capacity
        if prod_wanted > 0:
            unmet = max(0.0, prod_wanted - prod_used) / prod_wanted
            pressure = min(1.0, unmet + _OWN_PRESSURE * own + self.hardware.neighbour_pressure * own * beside)
            self.prod_waited_us += pressure * seconds * 1e6
        self.node_waited_us += min(1.0, max(0.0, own + beside - 0.9) * 5) * seconds * 1e6

    def _divided(self, capacity: float, wanted: list[float]) -> list[float]:
        """Water-filling over the weights of tiers, then of pods."""
        if sum(wanted) <= capacity:
            return wanted
        by_tier: dict[str, list[int]] = {}
        for place, pod in enumerate(self._ordered):
            by_tier.setdefault(pod.pod.tier.value, []).append(place)
        demands = {tier: sum(wanted[place] for place in places) for tier, places in by_tier.items()}
        got = fill(capacity, demands, {tier: self._tier_weight(tier) for tier in by_tier})
        used = list(wanted)
        for tier, places in by_tier.items():
            if got[tier] < demands[tier]:
                keys = {str(place): wanted[place] for place in places}
                weights = {str(place): self._ordered[place].group.scheduler_weight for place in places}
                for key, amount in fill(got[tier], keys, weights).items():
                    used[int(key)] = amount
        return used

    def _tier_weight(self, tier: str) -> int:
        group = self.kernel.group(f"{ROOT}/{tier}")
        return 1024 if group is None else group.scheduler_weight

    # memory

    def _update_memory(self, seconds: float) -> None:
        now = self._settled_at if self._load_at is None else self._load_at
        ended = [running for running in self._ordered if self._hold(running, now)]
        self._share_cache(seconds)
        for running in ended:
            self._oom_kill(running)
        held = self.hardware.system_bytes + sum(running.group.anonymous for running in self._ordered)
        while held > self.hardware.memory_bytes and self._ordered:
            victim = max(
                self._ordered, key=lambda pod: (pod.pod.tier is not Tier.PROD, pod.group.anonymous, pod.pod.uid)
            )
            held -= victim.group.anonymous
            self._oom_kill(victim)

    def _hold(self, running: Running, now: float) -> bool:
        """Set what a pod holds; whether the kernel must end a process of it."""
        group, wanted = running.group, running.load.memory(now - running.since)
        limit = group.limit
        if limit is not None and wanted > limit:
            running.is_held = group.is_over = group.is_oom_off
            group.anonymous, group.cache = limit // PAGE * PAGE, 0
            return not group.is_oom_off
        running.is_held = group.is_over = False
        if group.high is not None and wanted > group.high:  # slowed down, not ended
            wanted = max(group.anonymous, group.high)
        group.anonymous = wanted // PAGE * PAGE
        return False

    def _share_cache(self, seconds: float) -> None:
        """Every pod caches what it reads, within its limits and what is free; prod reads again what was dropped."""
        free = self.hardware.memory_bytes - self.hardware.system_bytes
        targets: list[tuple[Running, int]] = []
        for running in self._ordered:
            group = running.group
            free -= group.anonymous
            bounds = [bound - group.anonymous for bound in (group.limit, group.high) if bound is not None]
            targets.append((running, max(0, min([running.load.cache_bytes, *bounds]))))
        asked = sum(target for _, target in targets)
        part = 1.0 if asked <= free else max(0.0, free / asked)
        prod_wanted = prod_missing = 0
        for running, target in targets:
            running.group.cache = int(target * part) // PAGE * PAGE
            if running.pod.tier is Tier.PROD:
                prod_wanted += running.load.cache_bytes
                prod_missing += running.load.cache_bytes - running.group.cache
        if prod_missing > PAGE and seconds:
            self.prod_refault_bytes += prod_missing * _REREAD_PER_SECOND * seconds
            share = min(1.0, prod_missing / max(1, prod_wanted) * 0.5)
            self.prod_paged_us += share * seconds * 1e6
            self.node_paged_us += share * seconds * 1e6

    def _oom_kill(self, running: Running) -> None:
        self.oom_kills += 1
        if self.pods.pop(running.pod.uid, None) is not None:
            self._forget(running, "killed by the kernel: out of memory")


def _marked(running: Running) -> Pod:
    return replace(running.pod, labels={**running.pod.labels, PROTECTED[0]: AGENT_MARK})


def texts_of(machine: Machine) -> Mapping[str, str]:
    """All writable files with their texts."""
    return {path: machine.kernel.text(path) for path in machine.kernel.writable()}


def uids(pods: Iterable[Pod]) -> list[str]:
    return [pod.uid for pod in pods]
