"""What plugins of other processes have on this node: asked now and then, and part of the node's description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.endpoints import Endpoints, node_resources
from slackwater.agent.domain.resource_manager.manager import PluginCalls
from slackwater.agent.domain.resource_manager.messages import AllocatableResource, PluginCall, PluginFailure, Rpc

_ASK_SECONDS = 30.0


@dataclass(slots=True)
class PluginCapacity:
    """`reports` are the last answers by plugin. A plugin that does not answer has nothing left to give."""

    reports: dict[str, Mapping[str, AllocatableResource]] = field(default_factory=dict)
    _asked_at: dict[str, float] = field(default_factory=dict)

    def ask(self, endpoints: Endpoints, now: float) -> PluginCalls[None]:
        """Ask each plugin that runs, twice a minute and when it is new."""
        for name, endpoint in endpoints.items():
            if not endpoint.runs:
                self._asked_at.pop(name, None)
            elif name not in self._asked_at or now - self._asked_at[name] >= _ASK_SECONDS:
                self._asked_at[name] = now
                answer = yield PluginCall(name, Rpc.ALLOCATABLE)
                if isinstance(answer, PluginFailure):
                    answer = {resource: AllocatableResource(0.0, 0.0) for resource in self.reports.get(name, {})}
                self.reports[name] = answer

    def resources(self, endpoints: Endpoints, now: float) -> dict[str, int]:
        """Returns whole units by resource: none while a plugin is away, and no resource once its grace is over."""
        allocatable = node_resources(endpoints, self.reports, now).allocatable
        return {name: int(float(text)) for name, text in allocatable.items()}
