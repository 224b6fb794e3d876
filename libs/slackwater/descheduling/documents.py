"""DeschedulerProfile as operators write it, and the profile it comes to.

Names and defaults of plugins are those of koordinator and the Kubernetes descheduler where they have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from slackwater.descheduling.anomaly import AnomalyCondition
from slackwater.descheduling.cycle import CycleLimits
from slackwater.descheduling.evictability import EvictorSettings
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool, argument_problems
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import LoadSource
from slackwater.descheduling.profile import DeclaredProfile, PluginChoice, ProfileScope, TriggerRules
from slackwater.podmigration.jobs import MigrationMode
from slackwater.podmigration.limits import SkipGate
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Part, Resource
from slackwater.resources.selectors import LabelSelector

LOW_NODE_LOAD: Final = "LowNodeLoad"
MOST_PLUGINS: Final = 32
MOST_NAMES: Final = 100

Percent = Annotated[float, Field(ge=0, le=1000)]
"""Above 100 is allowed, as in the field: usage of a node may be above its allocatable amounts."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Names = Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)]
ResourceName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z][-a-z0-9./]*$")]
Thresholds = Annotated[dict[ResourceName, Percent], Field(max_length=16)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
Limit = Annotated[int, Field(ge=0, le=1_000_000)]


def _unique_gates(gates: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(gates)) != len(gates):
        raise ValueError("names a gate twice")
    return gates


Gates = Annotated[
    tuple[
        Literal[
            "PVC",
            "BarePods",
            "LocalStorage",
            "SystemCritical",
            "PriorityThreshold",
            "LabelSelector",
            "Namespaces",
        ],
        ...,
    ],
    Field(max_length=16),
    AfterValidator(_unique_gates),
]


class DeschedulerTriggers(Part):
    """Events that start a cycle before its interval has passed."""

    hotspot: bool = Field(True, description="an agent crossed a waterline")
    node_condition: bool = Field(True, description="a node became stale, lost or fresh again")
    cordon: bool = Field(True, description="a node was cordoned or opened")
    collapsed_offer: bool = Field(True, description="the offer of a node was withdrawn or fell below half")
    quota_reclaim: bool = Field(True, description="a tree of quotas asks for evictions")
    debounce_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        10.0, description="a cycle starts so long after the first of several events, and so long after the last cycle"
    )


class DeschedulerLimits(Part):
    """At most so many proposals in a cycle; absent: no limit."""

    total: Limit | None = Field(10, description="in all")
    per_node: Limit | None = Field(2, description="from one node")
    per_namespace: Limit | None = Field(None, description="of one namespace")


class DeschedulerRollout(Part):
    """Where the profile acts; elsewhere it only counts load."""

    namespaces: Names = Field((), description="pods of these namespaces are proposed; empty: of all")
    node_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        100, description="share of the nodes whose pods are proposed; nodes of a smaller share stay in a larger one"
    )


class DeschedulerRest(Part):
    """No ping-pong: what was moved rests, and what moves again and again is stopped."""

    rest_seconds: Seconds = Field(1800.0, description="a moved workload rests so long, per replica")
    loop_moves: Annotated[int, Field(ge=1, le=1000)] = Field(
        3, description="so many moves per replica within the window are a loop: the workload is stopped, with an alert"
    )
    loop_window_seconds: Seconds = Field(86_400.0, description="the window of the loop detector")


class DeschedulerEvictor(Part):
    """What may be proposed beyond the default. DaemonSets, static, mirror and terminating pods never are."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!(has(self.includeNamespaces) && size(self.includeNamespaces) > 0"
            " && has(self.excludeNamespaces) && size(self.excludeNamespaces) > 0)",
            "include or exclude namespaces, not both",
            "includeNamespaces",
        ),
    )

    evict_all_bare_pods: bool = Field(False, description="also pods without a controller")
    evict_failed_bare_pods: bool = Field(False, description="also failed pods without a controller")
    evict_system_critical_pods: bool = Field(
        False, description="also system-critical ones; lifts the priority threshold"
    )
    evict_local_storage_pods: bool = Field(False, description="also pods with local data")
    ignore_pvc_pods: bool = Field(False, description="not pods with a PersistentVolumeClaim")
    priority_threshold: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = Field(
        None, description="not pods of this priority or above"
    )
    match_labels: Annotated[dict[str, str], Field(max_length=MOST_NAMES)] = Field(
        default_factory=dict, description="only pods with these labels"
    )
    include_namespaces: Names = Field((), description="only pods of these namespaces")
    exclude_namespaces: Names = Field((), description="not pods of these namespaces")
    skip_gates: Gates = Field((), description="protections that are switched off, by koordinator's names")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.include_namespaces and self.exclude_namespaces:
            raise ValueError("includeNamespaces: include or exclude namespaces, not both")
        return self


class DeschedulerAnomaly(Part):
    """A node is drained after more consecutive rounds above its thresholds than this."""

    consecutive_abnormalities: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="1: at once")
    consecutive_normalities: Annotated[int, Field(ge=1, le=1000)] = Field(3, description="rounds that end an anomaly")
    timeout_seconds: Seconds = Field(60.0, description="an anomaly ends so long after it began")


def _not_above(lower: str, upper: str) -> CelRule:
    """As slackwater.descheduling.low_node_load.argument_problems has it."""
    below, above = f"self.{lower}", f"self.{upper}"
    each = f"{below}.all(name, !(name in {above}) || {below}[name] <= {above}[name])"
    return CelRule(f"!has({below}) || !has({above}) || {each}", f"must not be above {upper}", lower)


class DeschedulerNodePool(Part):
    """Thresholds of nodes, in percent of what is allocatable, or in percent points from the mean."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        _not_above("lowThresholds", "highThresholds"),
        _not_above("prodLowThresholds", "prodHighThresholds"),
        _not_above("prodHighThresholds", "highThresholds"),
    )

    name: Name = Field(description="of the pool, unique in the profile")
    node_selector: LabelSelector | None = Field(
        None, description="labels of the nodes; absent: all that no earlier pool drained"
    )
    low_thresholds: Thresholds = Field(default_factory=dict, description="below all of them a node takes pods")
    high_thresholds: Thresholds = Field(default_factory=dict, description="above one of them a node gives pods")
    prod_low_thresholds: Thresholds = Field(default_factory=dict, description="of the load of prod alone")
    prod_high_thresholds: Thresholds = Field(default_factory=dict, description="of the load of prod alone")
    use_deviation_thresholds: bool = Field(False, description="thresholds are percent points from the mean")

    def pool(self) -> LowNodeLoadPool:
        """Returns the pool as the plugin has it."""
        return LowNodeLoadPool(
            self.name,
            self.low_thresholds,
            self.high_thresholds,
            self.prod_low_thresholds,
            self.prod_high_thresholds,
            None if self.node_selector is None else self.node_selector.selector,
            self.use_deviation_thresholds,
        )


class DeschedulerLowNodeLoad(Part):
    """Moves pods from nodes above their high thresholds to nodes below their low ones."""

    LIST_KEYS: ClassVar[Mapping[str, str]] = {"nodePools": "name"}

    node_pools: Annotated[tuple[DeschedulerNodePool, ...], Field(min_length=1, max_length=50)] = Field(
        description="thresholds of pools of nodes, in their order"
    )
    load: Literal["measured", "predicted"] = Field("measured", description="which load is balanced")
    number_of_nodes: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        0, description="acts only with more low nodes than this"
    )
    node_fit: bool = Field(True, description="requests, labels and taints of the target are checked")
    resource_weights: Annotated[dict[ResourceName, Annotated[float, Field(ge=0, le=1000)]], Field(max_length=16)] = (
        Field(default_factory=dict, description="by resource; 1 by default")
    )
    anomaly_condition: DeschedulerAnomaly | None = Field(
        DeschedulerAnomaly(), description="null: one round above the thresholds is enough"
    )
    detector_cache_seconds: Seconds = Field(300.0, description="counts of a node not judged for so long start anew")
    metric_expiration_seconds: Seconds = Field(180.0, description="nodes without a report for so long are left out")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        names = [pool.name for pool in self.node_pools]
        if len(set(names)) != len(names):
            raise ValueError("nodePools: two pools have the same name")
        if problems := argument_problems(self.args(0.0)):
            raise ValueError(f"nodePools: {problems[0]}")
        return self

    def args(self, margin: float) -> LowNodeLoadArgs:
        """Returns the plugin's arguments; `margin` in 0..1."""
        condition = self.anomaly_condition
        return LowNodeLoadArgs(
            pools=tuple(pool.pool() for pool in self.node_pools),
            number_of_nodes=self.number_of_nodes,
            node_fit=self.node_fit,
            weights=self.resource_weights,
            anomaly=None
            if condition is None
            else AnomalyCondition(
                condition.consecutive_abnormalities, condition.consecutive_normalities, condition.timeout_seconds
            ),
            detector_cache_s=self.detector_cache_seconds,
            metric_expiration_s=self.metric_expiration_seconds,
            load=LoadSource(self.load),
            margin=margin,
        )


class DeschedulerPlugin(Part):
    """A plugin by the name of its entry point, and its arguments."""

    name: Name = Field(description="of the plugin")
    args: Annotated[dict[Name, bool | int | float | str | tuple[str, ...]], Field(max_length=MOST_NAMES)] = Field(
        default_factory=dict, description="arguments of the plugin, by name"
    )


class DeschedulerProfileSpec(Part):
    """Which pods would be better elsewhere, when that is examined, and how far a cycle goes."""

    LIST_KEYS: ClassVar[Mapping[str, str]] = {"plugins": "name"}

    node_pool: Name | None = Field(None, description="pool of the nodes; absent: all nodes")
    node_selector: LabelSelector | None = Field(None, description="labels of the nodes; absent: all")
    interval_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(120.0, description="pause between two cycles")
    triggers: DeschedulerTriggers = DeschedulerTriggers()
    dry_run: bool = Field(False, description="cycles are decided and recorded, and nothing is proposed")
    limits: DeschedulerLimits = DeschedulerLimits()
    rollout: DeschedulerRollout = DeschedulerRollout()
    rest: DeschedulerRest = DeschedulerRest()
    margin_percent: Annotated[float, Field(ge=0, le=100)] = Field(
        5.0, description="the weighted load of a target stays so far below that of the node that the pod leaves"
    )
    evictor: DeschedulerEvictor = DeschedulerEvictor()
    low_node_load: DeschedulerLowNodeLoad | None = Field(None, description="balances load; absent: it is off")
    plugins: Annotated[tuple[DeschedulerPlugin, ...], Field(max_length=MOST_PLUGINS)] = Field(
        (), description="further plugins, in the order in which they propose"
    )
    migration_mode: Literal["ReservationFirst", "EvictDirectly"] = Field(
        "ReservationFirst", description="whether room elsewhere is reserved before a pod is evicted"
    )
    ttl_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(300.0, description="a move that takes longer fails")

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        names = [plugin.name for plugin in self.plugins]
        if len(set(names)) != len(names):
            raise ValueError("plugins: a plugin is named twice")
        if LOW_NODE_LOAD in names:
            raise ValueError("plugins: LowNodeLoad is configured by lowNodeLoad")
        return self


class DeschedulerProfile(Resource):
    """A set of plugins that find pods which would be better elsewhere, and the rules that hold for their proposals."""

    kind: Literal["DeschedulerProfile"] = "DeschedulerProfile"
    spec: DeschedulerProfileSpec


def profile_of(document: DeschedulerProfile) -> DeclaredProfile:
    """Returns the profile that a document declares."""
    spec = document.spec
    evictor, limits, rest, triggers = spec.evictor, spec.limits, spec.rest, spec.triggers
    margin = spec.margin_percent / 100
    return DeclaredProfile(
        name=document.name,
        generation=document.metadata.generation,
        scope=ProfileScope(
            pool=spec.node_pool,
            selector=None if spec.node_selector is None else spec.node_selector.selector,
            namespaces=frozenset(spec.rollout.namespaces),
            node_percent=spec.rollout.node_percent,
        ),
        interval_s=spec.interval_seconds,
        triggers=TriggerRules(
            hotspot=triggers.hotspot,
            node_condition=triggers.node_condition,
            cordon=triggers.cordon,
            collapsed_offer=triggers.collapsed_offer,
            quota_reclaim=triggers.quota_reclaim,
            debounce_s=triggers.debounce_seconds,
        ),
        dry_run=spec.dry_run,
        limits=CycleLimits(limits.total, limits.per_node, limits.per_namespace),
        rest=RestRules(rest.rest_seconds, rest.loop_moves, rest.loop_window_seconds),
        margin=margin,
        evictor=EvictorSettings(
            evict_all_bare_pods=evictor.evict_all_bare_pods,
            evict_failed_bare_pods=evictor.evict_failed_bare_pods,
            evict_system_critical=evictor.evict_system_critical_pods,
            evict_local_storage=evictor.evict_local_storage_pods,
            ignore_pvc=evictor.ignore_pvc_pods,
            priority_threshold=evictor.priority_threshold,
            label_selector=evictor.match_labels or None,
            include_namespaces=frozenset(evictor.include_namespaces),
            exclude_namespaces=frozenset(evictor.exclude_namespaces),
            skip_gates=frozenset(map(SkipGate, evictor.skip_gates)),
        ),
        low_node_load=None if spec.low_node_load is None else spec.low_node_load.args(margin),
        plugins=tuple(PluginChoice(plugin.name, plugin.args) for plugin in spec.plugins),
        mode=MigrationMode(spec.migration_mode),
        ttl_s=spec.ttl_seconds,
    )
