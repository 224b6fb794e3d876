"""Plugins that answer, refuse, hang or contradict themselves, for tests of the manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, ResourceManager
from slackwater.agent.domain.resource_manager.messages import (
    QOS_LEVEL,
    RECONCILED,
    Allocated,
    Allocation,
    PluginCall,
    PluginFailure,
    QosLevel,
    Rpc,
)
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.kernels.topology.hints import Hint

Refuses = Callable[[PluginCall], bool]


@dataclass
class MockPlugins:
    """All plugins of a node: each allocates what it is asked for, unless `refuses` says otherwise."""

    refuses: Refuses = lambda call: False
    hints: Mapping[str, Sequence[Hint] | None] = field(default_factory=dict)
    extra: Mapping[str, Allocation] = field(default_factory=dict)
    held: dict[str, dict[tuple[str, str], Allocated]] = field(default_factory=dict)
    calls: list[PluginCall] = field(default_factory=list)

    def answer(self, call: PluginCall) -> Any:
        self.calls.append(call)
        if self.refuses(call):
            return PluginFailure("refused")
        held = self.held.setdefault(call.resource, {})
        match call.rpc:
            case Rpc.HINTS | Rpc.POD_HINTS:
                return {call.resource: self.hints.get(call.resource)}
            case Rpc.ALLOCATE:
                request = call.request
                allocation = Allocation("", request.amount, "", hints=(request.hint,))
                held[request.pod_uid, request.container] = {call.resource: allocation, **self.extra}
                return held[request.pod_uid, request.container]
            case Rpc.ALLOCATIONS:
                return dict(held)
            case Rpc.REMOVE:
                for key in [key for key in held if key[0] == call.request]:
                    del held[key]
        return None

    def asked(self, rpc: Rpc) -> list[str]:
        return [call.resource for call in self.calls if call.rpc is rpc]

    @property
    def is_empty(self) -> bool:
        return not any(self.held.values())


def manager(*resources: str, rules: ManagerRules | None = None) -> ResourceManager:
    endpoints = {name: PluginEndpoint(name, RECONCILED) for name in resources}
    return ResourceManager(rules or ManagerRules(nodes=(0, 1)), endpoints)


def pod(
    uid: str = "pod",
    requests: Mapping[str, float] | None = None,
    level: QosLevel | None = None,
    init: Sequence[str] = (),
    sidecars: Sequence[str] = (),
) -> PodSpec:
    """A pod whose containers all ask for the same."""
    asked = {"cpu": 1.0, "memory": 1.0} if requests is None else requests
    return PodSpec(
        uid,
        uid,
        containers=[ContainerSpec(name, asked) for name in ("main", *sidecars)],
        init_containers=[ContainerSpec(name, asked) for name in init],
        annotations={} if level is None else {QOS_LEVEL: level.value},
    )
