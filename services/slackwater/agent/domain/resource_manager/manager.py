"""Admits, releases and reconciles pods by asking plugins. Without I/O: each operation is a generator of plugin calls
that is sent their answers, so in-process plugins, gRPC and tests drive the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from slackwater.agent.domain.resource_manager.checkpoint import Entries
from slackwater.agent.domain.resource_manager.endpoints import Endpoints, PluginEndpoint
from slackwater.agent.domain.resource_manager.messages import (
    Allocated,
    Allocation,
    PluginCall,
    PluginFailure,
    QosLevel,
    ResourceRequest,
    Rpc,
)
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec, is_reconciled, mapped_name
from slackwater.kernels.topology.hints import Hint
from slackwater.kernels.topology.merge import Distances, MergePolicy, merge
from slackwater.kernels.topology.merge_numeric import merge_numeric

T = TypeVar("T")
PluginCalls = Generator[PluginCall, Any, T]
Hints = Mapping[str, Sequence[Hint] | None]
TOLERATED: Mapping[QosLevel, bool] = MappingProxyType(
    {QosLevel.DEDICATED: False, QosLevel.SHARED: True, QosLevel.RECLAIMED: False, QosLevel.SYSTEM: True}
)
"""Whether a pod starts although a plugin failed. It starts without a cpuset then, and the admission says so: only for
levels that lose nothing but their place."""
NOT_ALIGNED, NOT_ALLOCATED = "TopologyAffinityError", "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class ManagerRules:
    """`names`: under which name a resource is allocated, where it is another. `pod_scope`: one hint for all containers
    of a pod instead of one for each."""

    nodes: tuple[int, ...] = (0,)
    policy: MergePolicy = MergePolicy.BEST_EFFORT
    distances: Distances | None = None
    pod_scope: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    skip_annotations: frozenset[str] = frozenset()
    tolerated: Mapping[QosLevel, bool] = field(default_factory=lambda: TOLERATED)


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer for a pod. `without`: resources that a tolerated failure left unallocated, with the sentence why."""

    is_admitted: bool
    reason: str = ""
    message: str = ""
    allocated: Mapping[str, Allocated] = field(default_factory=dict)
    without: Mapping[tuple[str, str], str] = field(default_factory=dict)
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """`changed`: containers whose allocation is another one now; `failures`: what a plugin did not do, by resource."""

    changed: frozenset[tuple[str, str]] = frozenset()
    released: frozenset[str] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)


class _Refused(Exception):
    """Ends an admission; its arguments are reason and message."""


@dataclass(slots=True)
class ResourceManager:
    """All allocations of a node. `unreleased`: pods that are gone, but not for every plugin yet."""

    rules: ManagerRules = field(default_factory=ManagerRules)
    endpoints: Endpoints = field(default_factory=dict)
    entries: dict[tuple[str, str], dict[str, Allocation]] = field(default_factory=dict)
    unreleased: set[str] = field(default_factory=set)

    def load(self, entries: Entries) -> None:
        """Continue with the allocations of a checkpoint."""
        self.entries = {key: dict(allocated) for key, allocated in entries.items()}

    def allocated(self, uid: str) -> dict[str, dict[str, Allocation]]:
        """Returns what the containers of a pod have, by name."""
        return {name: allocated for (pod, name), allocated in self.entries.items() if pod == uid}

    def admit(self, pod: PodSpec) -> PluginCalls[Admission]:
        """All containers or none: what was allocated for a pod that is refused is released. A pod that is admitted
        again keeps what still holds its requests, and keeps everything where it is refused then."""
        before = self.allocated(pod.uid)
        if pod.is_skipped(is_first=not before, skip_annotations=self.rules.skip_annotations):
            return Admission(is_admitted=True, is_skipped=True)
        after: dict[str, dict[str, Allocation]] = {}
        without: dict[tuple[str, str], str] = {}
        try:
            of_pod = (yield from self._pod_hints(pod)) if self.rules.pod_scope else None
            for container in pod.in_order():
                present = before.get(container.name, {})
                hints = of_pod if of_pod is not None else (yield from self._aligned(pod, container))
                after[container.name] = yield from self._allocate(pod, container, hints, present, without)
        except _Refused as refusal:
            if not before:
                yield from self.release(pod.uid)
            return Admission(False, *refusal.args)
        for name, allocated in after.items():
            self._put((pod.uid, name), allocated)
        return Admission(is_admitted=True, allocated=after, without=without)

    def hints(self, pod: PodSpec, container: ContainerSpec) -> PluginCalls[Hints]:
        """Returns the hints of each plugin that is asked for alignment. None: no preference; empty: impossible."""
        hints: dict[str, Sequence[Hint] | None] = {}
        present = self.entries.get((pod.uid, container.name), {})
        if pod.is_skipped(is_first=not present, skip_annotations=self.rules.skip_annotations):
            return hints
        for name, amounts in self._requested(container).items():
            amount, cached = next(iter(amounts.values())), present.get(name)
            if not amount:
                continue
            if not self.endpoints[name].options.with_topology_alignment:
                hints[name] = None
            elif cached is not None and cached.hints and cached.holds(amount):
                hints[name] = [hint for hint in cached.hints if hint is not None] or None
            else:
                answer = yield from self._ask(name, Rpc.HINTS, pod.request_of(container, name, amounts))
                hints[name] = () if isinstance(answer, PluginFailure) else answer.get(name)
        return hints

    def release(self, uid: str) -> PluginCalls[bool]:
        """Release a pod at every plugin. Returns whether all did; otherwise the next reconciliation tries again."""
        failed = False
        for name, endpoint in self.endpoints.items():
            if endpoint.runs:
                answer = yield PluginCall(name, Rpc.REMOVE, uid)
                failed = failed or isinstance(answer, PluginFailure)
        if failed:
            self.unreleased.add(uid)
        else:
            self.unreleased.discard(uid)
            for key in [key for key in self.entries if key[0] == uid]:
                del self.entries[key]
        return not failed

    def reconcile(self, pods: Sequence[PodSpec]) -> PluginCalls[Reconciliation]:
        """Release pods that are gone, accept what plugins have changed, and allocate what they do not know."""
        active = {pod.uid for pod in pods}
        before = {key: dict(allocated) for key, allocated in self.entries.items()}
        released: set[str] = set()
        for uid in sorted((self.unreleased | {key[0] for key in self.entries}) - active):
            if (yield from self.release(uid)):
                released.add(uid)
        reports: dict[str, Mapping[tuple[str, str], Allocated]] = {}
        failures: dict[str, str] = {}
        for name, endpoint in self.endpoints.items():
            if endpoint.runs and endpoint.options.need_reconcile:
                answer = yield PluginCall(name, Rpc.ALLOCATIONS)
                if isinstance(answer, PluginFailure):
                    failures[name] = answer.reason
                else:
                    reports[name] = answer
        for pod in pods:
            if not pod.is_skipped(is_first=False, skip_annotations=self.rules.skip_annotations):
                yield from self._reconcile_pod(pod, reports, failures)
        changed = {key for key, allocated in self.entries.items() if before.get(key) != allocated}
        return Reconciliation(frozenset(changed), frozenset(released), failures)

    def _reconcile_pod(
        self,
        pod: PodSpec,
        reports: Mapping[str, Mapping[tuple[str, str], Allocated]],
        failures: dict[str, str],
    ) -> PluginCalls[None]:
        for container in pod.containers if pod.uid in {key[0] for key in self.entries} else ():
            if not is_reconciled(pod, container.name):
                continue
            key = pod.uid, container.name
            allocated = dict(self.entries.get(key, {}))
            for name, amounts in self._requested(container).items():
                reported = reports.get(name, {}).get(key)
                if reported:
                    allocated.update(reported)
                elif name in reports:
                    allocated.pop(name, None)
                    answer = yield from self._ask(name, Rpc.ALLOCATE, pod.request_of(container, name, amounts))
                    if isinstance(answer, PluginFailure):
                        failures[name] = answer.reason
                    else:
                        allocated.update(answer)
            self._put(key, allocated)

    def _pod_hints(self, pod: PodSpec) -> PluginCalls[Mapping[str, Hint | None]]:
        """One hint for the whole pod: of the sum of its containers, or the largest init container."""
        sums: dict[str, float] = {}
        for container in pod.containers:
            for name, amounts in self._requested(container).items():
                sums[name] = sums.get(name, 0.0) + next(iter(amounts.values()))
        for container in pod.init_containers:
            for name, amounts in self._requested(container).items():
                sums[name] = max(sums.get(name, 0.0), next(iter(amounts.values())))
        hints: dict[str, Sequence[Hint] | None] = {}
        for name, amount in sums.items():
            if not amount or not self.endpoints[name].options.with_topology_alignment:
                continue
            request = replace(pod.request_of(next(pod.in_order()), name, {name: amount}), container="")
            answer = yield from self._ask(name, Rpc.POD_HINTS, request)
            hints[name] = () if isinstance(answer, PluginFailure) else answer.get(name)
        return self._merged(hints)

    def _aligned(self, pod: PodSpec, container: ContainerSpec) -> PluginCalls[Mapping[str, Hint | None]]:
        return self._merged((yield from self.hints(pod, container)))

    def _merged(self, hints: Hints) -> Mapping[str, Hint | None]:
        """Empty where no plugin prefers a node. Raises _Refused where the policy admits no merge."""
        if all(listed is None for listed in hints.values()):
            return {}
        if self.rules.policy is MergePolicy.NUMERIC:
            by_resource = merge_numeric([hints])
            if by_resource is not None:
                return by_resource
        else:
            merged = merge(self.rules.policy, self.rules.nodes, [hints], self.rules.distances)
            if merged.admitted:
                return dict.fromkeys(hints, merged.hint)
        names = ", ".join(sorted(hints))
        raise _Refused(NOT_ALIGNED, f"Resources cannot be allocated with Topology locality: {names}")

    def _allocate(
        self,
        pod: PodSpec,
        container: ContainerSpec,
        hints: Mapping[str, Hint | None],
        present: Allocated,
        without: dict[tuple[str, str], str],
    ) -> PluginCalls[dict[str, Allocation]]:
        allocated: dict[str, Allocation] = {}
        for name, amounts in self._requested(container).items():
            cached = present.get(name)
            if cached is not None and cached.holds(next(iter(amounts.values()))):
                allocated[name] = cached
                continue
            hint = hints.get(name) if self.endpoints[name].options.with_topology_alignment else None
            request = replace(pod.request_of(container, name, amounts), hint=hint)
            answer = yield from self._ask(name, Rpc.ALLOCATE, request)
            if not isinstance(answer, PluginFailure):
                allocated.update(answer)
            elif self.rules.tolerated[pod.level]:
                without[container.name, name] = f"{name}: starts without it, as {pod.level} may: {answer.reason}"
            else:
                raise _Refused(NOT_ALLOCATED, f"{container.name}: {name} is not allocated: {answer.reason}")
        return allocated

    def _requested(self, container: ContainerSpec) -> dict[str, dict[str, float]]:
        """The amounts by the name of a plugin that there is; the amount itself has the name that the container uses."""
        requested: dict[str, dict[str, float]] = {}
        for resource, amount in container.requests.items():
            name = mapped_name(resource, container.requests.keys(), self.rules.names)
            if name in self.endpoints:
                requested[name] = {resource: amount}
        return requested

    def _ask(self, name: str, rpc: Rpc, request: ResourceRequest) -> PluginCalls[Any]:
        endpoint: PluginEndpoint = self.endpoints[name]
        if not endpoint.runs:
            return PluginFailure(f"endpoint {name} has been stopped")
        answer = yield PluginCall(name, rpc, request)
        return answer if answer is not None else {}

    def _put(self, key: tuple[str, str], allocated: Mapping[str, Allocation]) -> None:
        if allocated:
            self.entries[key] = dict(allocated)
        else:
            self.entries.pop(key, None)


def drive(calls: PluginCalls[T], answer: Callable[[PluginCall], Any]) -> T:
    """Returns the result of an operation whose calls are answered at once."""
    try:
        call = next(calls)
        while True:
            call = calls.send(answer(call))
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # of the generator, which is typed


def resources_of(entries: Entries) -> Set[str]:
    """Returns the resources that anything is allocated of."""
    return {resource for allocated in entries.values() for resource in allocated}
