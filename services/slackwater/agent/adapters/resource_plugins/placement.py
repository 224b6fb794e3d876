"""The plugins of other processes beside the ones of the agent: which resources and properties are not theirs."""

from __future__ import annotations

from pathlib import Path

from slackwater.agent.adapters.resource_plugins.directory import PluginDirectory
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryPlugin
from slackwater.model.time import Clock

_PROPERTIES = frozenset({"CpusetCpus", "CpusetMems"})


def remote_plugins(folder: Path, cpu: CpuPlugin, memory: MemoryPlugin, clock: Clock) -> PluginDirectory:
    """Returns the plugins that register in a directory, beside those of CPU and memory."""
    nodes = frozenset({*cpu.machine.numa_nodes, *(node.node for node in memory.nodes)})
    own = {plugin.resource: PluginEndpoint(plugin.resource, plugin.options) for plugin in (cpu, memory)}
    bounds = ForeignBounds(nodes, frozenset(own), _PROPERTIES, cpu.machine.ids - cpu.demand.reserved)
    return PluginDirectory(folder, bounds, clock, own)
