"""What an admission would do to the CPUs of this machine, by the functions that admit; nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.agent.domain.resource_manager.cpu_plugin import CPU, CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, ResourceManager, drive
from slackwater.agent.domain.resource_manager.plugin import answer_of
from slackwater.agent.usecases.place_pods import pod_spec
from slackwater.kernels.topology.plan_replay import PlanBasis
from slackwater.kernels.topology.pools import PoolDecision
from slackwater.model.pods import Pod


@dataclass(frozen=True, slots=True)
class PlacementPreview:
    """The CPUs that a pod would have, and the sizes of all pools then; or why it would be refused."""

    cpus: str = ""
    pools: Sequence[PoolDecision] = ()
    refused: str = ""


def preview_placement(basis: PlanBasis, pod: Pod) -> PlacementPreview:
    """Returns what would come of a pod that is admitted now. Resources of other plugins are not asked for."""
    plugin = CpuPlugin(basis.machine, basis.demand, CpuPluginRules(refuses_overcommitted=False))
    plugin.begin(basis.now)
    for spec in basis.holders:
        uid, _, container = spec.key.rpartition("/")
        plugin.holders[uid, container] = spec
    rules = ManagerRules(basis.machine.numa_nodes)
    manager = ResourceManager(rules, {CPU: PluginEndpoint(CPU, plugin.options)})
    admission = drive(manager.admit(pod_spec(pod)), lambda call: answer_of(plugin, call))
    if not admission.is_admitted:
        return PlacementPreview(refused=admission.message)
    (allocated,) = admission.allocated.values()
    return PlacementPreview(allocated[CPU].result, plugin.decisions)
