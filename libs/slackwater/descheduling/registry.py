"""Plugins by name: the built-in ones, and the entry points of installed distributions.

An entry point of the group `slackwater.deschedule` names a factory: it takes the arguments of the profile by name and
returns an object with at least one extension point. It raises InvalidInput for arguments that it does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from slackwater.descheduling.compaction import high_node_utilization
from slackwater.descheduling.plugins import (
    ENTRY_POINT,
    BalancePoint,
    DeschedulePoint,
    EvictPoint,
    FilterPoint,
    Plugin,
    PreEvictionFilterPoint,
    SortPoint,
    UndoPoint,
)
from slackwater.descheduling.pod_groups import anti_affinity, remove_duplicates, topology_spread
from slackwater.descheduling.profile import PluginArgs, PluginChoice
from slackwater.descheduling.single_pods import (
    failed_pods,
    node_affinity,
    node_taints,
    pod_life_time,
    too_many_restarts,
)
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.nodes import PodDetail
from slackwater.model.plugins import entry_points

PluginFactory = Callable[[PluginArgs], Plugin]
BUILT_IN: Final[Mapping[str, PluginFactory]] = {
    "HighNodeUtilization": high_node_utilization,
    "PodLifeTime": pod_life_time,
    "RemoveDuplicates": remove_duplicates,
    "RemoveFailedPods": failed_pods,
    "RemovePodsHavingTooManyRestarts": too_many_restarts,
    "RemovePodsViolatingInterPodAntiAffinity": anti_affinity,
    "RemovePodsViolatingNodeAffinity": node_affinity,
    "RemovePodsViolatingNodeTaints": node_taints,
    "RemovePodsViolatingTopologySpreadConstraint": topology_spread,
}
"""A test compares these with the entry points in pyproject.toml."""
NEEDED_DETAILS: Final[Mapping[str, tuple[PodDetail, ...]]] = {
    "RemoveFailedPods": (PodDetail.FAILED_PODS,),
    "RemovePodsHavingTooManyRestarts": (PodDetail.RESTARTS,),
    "RemovePodsViolatingInterPodAntiAffinity": (PodDetail.PLACEMENT_RULES,),
    "RemovePodsViolatingNodeAffinity": (PodDetail.PLACEMENT_RULES,),
    "RemovePodsViolatingNodeTaints": (PodDetail.NODE_TAINTS, PodDetail.PLACEMENT_RULES),
    "RemovePodsViolatingTopologySpreadConstraint": (PodDetail.PLACEMENT_RULES,),
}
"""What a plugin reads beyond usage. Where an agent does not report it, the plugin finds nothing."""
_POINTS: Final = (BalancePoint, DeschedulePoint, EvictPoint, FilterPoint, PreEvictionFilterPoint, SortPoint, UndoPoint)


def plugin_names() -> tuple[str, ...]:
    """Returns the names of all plugins, sorted."""
    return tuple(sorted({*BUILT_IN, *(entry.name for entry in entry_points(ENTRY_POINT))}))


def make_plugin(choice: PluginChoice) -> Plugin:
    """Returns a plugin with its arguments. Raises InvalidInput for an unknown name or wrong arguments, Misconfigured
    for an entry point that cannot be used."""
    plugin = _factory(choice.name)(choice.args)
    if not isinstance(plugin, _POINTS):
        raise Misconfigured(
            f"plugin {choice.name}: {type(plugin).__name__} has no extension point", code="deschedule_plugin_unusable"
        )
    return plugin


def _factory(name: str) -> PluginFactory:
    if name in BUILT_IN:
        return BUILT_IN[name]
    entry = next((entry for entry in entry_points(ENTRY_POINT) if entry.name == name), None)
    if entry is None:
        allowed = ", ".join(plugin_names())
        raise InvalidInput(f"spec.plugins: {name!r} is no plugin; allowed: {allowed}", field="spec.plugins")
    try:
        return cast(PluginFactory, entry.load())
    except Exception as error:
        raise Misconfigured(
            f"plugin {name}: entry point {entry.value} cannot be loaded: {type(error).__name__}: {error}",
            code="deschedule_plugin_unusable",
        ) from error
