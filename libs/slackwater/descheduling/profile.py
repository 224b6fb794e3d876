"""A profile of descheduling: which plugins, on which nodes, when, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from zlib import crc32

from slackwater.descheduling.cycle import CycleLimits
from slackwater.descheduling.evictability import EvictorSettings
from slackwater.descheduling.low_node_load import LowNodeLoadArgs
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import EXPECTED, LoadBasis
from slackwater.model.records import record
from slackwater.podmigration.jobs import MigrationMode
from slackwater.resources.selectors import Selector

PluginArgs = Mapping[str, bool | int | float | str | Sequence[str]]


class CycleTrigger(StrEnum):
    """What started a cycle."""

    INTERVAL = "interval"
    HOTSPOT = "hotspot"
    NODE_CONDITION = "node_condition"
    CORDON = "cordon"
    COLLAPSED_OFFER = "collapsed_offer"
    QUOTA_RECLAIM = "quota_reclaim"


@record(frozen=True, slots=True)
class TriggerRules:
    """Which events start a cycle, and how long a cycle waits for further ones."""

    hotspot: bool = True
    node_condition: bool = True
    cordon: bool = True
    collapsed_offer: bool = True
    quota_reclaim: bool = True
    debounce_s: float = 10.0

    def follows(self, trigger: CycleTrigger) -> bool:
        """Whether the event starts a cycle."""
        return {
            CycleTrigger.INTERVAL: True,
            CycleTrigger.HOTSPOT: self.hotspot,
            CycleTrigger.NODE_CONDITION: self.node_condition,
            CycleTrigger.CORDON: self.cordon,
            CycleTrigger.COLLAPSED_OFFER: self.collapsed_offer,
            CycleTrigger.QUOTA_RECLAIM: self.quota_reclaim,
        }[trigger]


@record(frozen=True, slots=True)
class ProfileScope:
    """The nodes that a profile reads, and the part of them in which it acts."""

    pool: str | None = None
    selector: Selector | None = None
    namespaces: frozenset[str] = frozenset()
    """Empty: all."""
    node_percent: int = 100

    def reads(self, pool: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of the profile's."""
        return self.pool in (None, pool) and (self.selector is None or self.selector.matches(labels))

    def acts_on(self, node: str, namespace: str) -> bool:
        """Whether a pod of the namespace on the node may be proposed. The share of nodes grows by adding nodes."""
        return (not self.namespaces or namespace in self.namespaces) and crc32(node.encode()) % 100 < self.node_percent


@record(frozen=True, slots=True)
class PluginChoice:
    """A plugin by name, with its arguments."""

    name: str
    args: PluginArgs = field(default_factory=dict)


@record(frozen=True, slots=True)
class DeclaredProfile:
    """What a DeschedulerProfile declares."""

    name: str
    generation: int = 0
    scope: ProfileScope = ProfileScope()
    interval_s: float = 120.0
    triggers: TriggerRules = TriggerRules()
    dry_run: bool = False
    limits: CycleLimits = CycleLimits(10, 2)
    rest: RestRules = RestRules()
    margin: float = 0.05
    """In 0..1 of the weighted load."""
    evictor: EvictorSettings = EvictorSettings()
    low_node_load: LowNodeLoadArgs | None = None
    plugins: Sequence[PluginChoice] = ()
    mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    ttl_s: float = 300.0

    @property
    def basis(self) -> LoadBasis:
        """The load that `lowNodeLoad` balances, which its moves have to even out; without it the expected one."""
        args = self.low_node_load
        if args is None:
            return EXPECTED
        names = sorted({name for pool in args.pools for name in (*pool.high, *pool.prod_high)})
        return LoadBasis(args.load, {name: args.weights.get(name, 1.0) for name in names})
