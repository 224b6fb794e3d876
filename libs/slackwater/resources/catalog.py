"""Every resource kind, declared once. REST routes, the command line, reference pages and tests are made of these.

Models, cells and hooks are named by strings, which are loaded when they are needed: this module imports no service.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from slackwater.model.errors import InvalidInput
from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind, Preview, Unique
from slackwater.resources.names import CLUSTER

_GUARDS: Final = "slackwater.cli.guard_columns"
_POLICIES: Final = "slackwater.cli.policy_columns"
_STRATEGIES: Final = "slackwater.cli.strategy_columns"
_PLAIN_CODES: Final = {"not_found": "not_found", "needed": "conflict"}
"""Ensurance answered with the general codes before kinds were declared."""
_POOL: Final = Unique("pool", "pool", "spec.nodePool", "node_pool_taken")

NODE_QOS: Final = Kind(
    name="NodeQOS",
    plural="nodeqos",
    short=("nqos",),
    service="ensurance",
    model="slackwater.waterline.policies.rules:NodeQosRules",
    parent=CLUSTER,
    parent_model="slackwater.waterline.nodeqos:NodeQos",
    parent_remedy="it is the whole cluster's and always there; change it with PUT",
    inherits=False,
    table="node_qos",
    operations="node_rules",
    about="rules that throttle or evict pods of some nodes; `default` also says how far the whole cluster may go",
    columns=(
        NAME,
        Column("NODES", f"{_GUARDS}:selected_nodes"),
        Column("MODE", ".spec.mode"),
        Column("RULES", f"{_GUARDS}:rules"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=_PLAIN_CODES,
    example={
        "selector": {"matchLabels": {"slackwater.io/node-pool": "gold"}},
        "rules": [
            {
                "name": "busy-node",
                "metricRule": {"name": "node_cpu_usage_ratio", "value": "85%"},
                "actionName": "throttle",
            }
        ],
    },
)
POD_QOS: Final = Kind(
    name="PodQOS",
    plural="podqos",
    short=("pqos",),
    service="ensurance",
    model="slackwater.waterline.policies.podqos:PodQos",
    table="pod_qos",
    about="which pods may suffer which avoidance actions",
    columns=(
        NAME,
        Column("PODS", f"{_GUARDS}:selected_pods"),
        Column("ACTIONS", f"{_GUARDS}:allowed_actions"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=_PLAIN_CODES,
    example={
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle"],
    },
)
AVOIDANCE_ACTION: Final = Kind(
    name="AvoidanceAction",
    plural="avoidanceactions",
    short=("aa",),
    service="ensurance",
    model="slackwater.waterline.policies.avoidance:AvoidanceAction",
    table="avoidance_actions",
    about="what a rule does: throttle, evict, or only cordon the node",
    columns=(
        NAME,
        Column("DOES", f"{_GUARDS}:effects"),
        Column("COOL-DOWN", ".spec.coolDownSeconds", "number"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=_PLAIN_CODES,
    example={"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False},
)
AUTONOMY: Final = Kind(
    name="Autonomy",
    plural="autonomies",
    service="ensurance",
    model="slackwater.waterline.policies.grants:Autonomy",
    table="autonomies",
    about="how far a pool may go (observe, throttle, evict), and what makes it step back from evicting",
    columns=(
        NAME,
        Column("POOL", f"{_GUARDS}:pool"),
        Column("MODE", ".spec.mode"),
        Column("PER-HOUR", ".spec.evictionsPerHour", "integer"),
        Column("HOLD", ".spec.holdSeconds", "number", 1),
        GENERATION,
        CHANGED_BY,
    ),
    unique=_POOL,
    codes=_PLAIN_CODES,
    example={"mode": "evict", "nodePool": "gold"},
)
PREDICT_POLICY: Final = Kind(
    name="PredictPolicy",
    plural="predictpolicies",
    short=("pp",),
    service="prediction",
    model="slackwater.prediction.usecases.predict_policy:PredictPolicy",
    parent=CLUSTER,
    parent_remedy="every pool without its own follows it; change it with PUT instead",
    table="policies",
    about="how peaks are predicted, for the cluster (`default`) or a pool",
    columns=(
        NAME,
        Column("POOL", f"{_POLICIES}:pool_of"),
        Column("CPU", ".status.effective.cpu.name"),
        Column("CPU-RATE", ".status.effective.cpu.settings.violation_rate", "number"),
        Column("MEMORY", ".status.effective.memory.name"),
        Column("MEMORY-RATE", ".status.effective.memory.settings.violation_rate", "number"),
        GENERATION,
        Column("STATE", f"{_POLICIES}:state"),
        Column("FOLD", ".status.effective.cadence.histogramUpdateIntervalSeconds", "number", 1),
        Column("REPORT", ".status.effective.cadence.reportingIntervalSeconds", "number", 1),
        Column("CHECK", ".status.effective.cadence.checkPredictionIntervalSeconds", "number", 1),
        Column("DIFF", ".status.effective.cadence.resourceDiffThreshold", "number", 1),
        Column("FORCE", ".status.effective.cadence.forceUpdateIntervalSeconds", "number", 1),
        Column("PROTECT-LSR", ".status.effective.protectLSR", "boolean", 1),
        CHANGED_BY,
    ),
    unique=_POOL,
    describe=f"{_POLICIES}:policy_lines",
    one="predict_policy",
    several="predict_policies",
    listing="PredictPolicies",
    nulls=True,
    example={"nodePool": "gold", "violationRate": 0.01},
)
COLOCATION_STRATEGY: Final = Kind(
    name="ColocationStrategy",
    plural="colocationstrategies",
    short=("cs",),
    service="colocation",
    model="slackwater.colocation.usecases.colocation_strategy:ColocationStrategy",
    parent=CLUSTER,
    parent_remedy="every node follows it; change it with PUT instead (enable: false offers nothing anywhere)",
    table="strategies",
    about="how much is offered to lower tiers, for the cluster (`default`) or some nodes",
    columns=(
        NAME,
        Column("FOR", f"{_STRATEGIES}:selected_nodes"),
        Column("ENABLED", ".status.effective.enable", "boolean"),
        Column("CPU-PERCENT", ".status.effective.cpuReclaimThresholdPercent", "integer"),
        Column("MEMORY-PERCENT", ".status.effective.memoryReclaimThresholdPercent", "integer"),
        Column("MID", ".status.effective.midReclaimMode"),
        Column("NODES", ".status.nodes", "integer"),
        Column("BAD", ".status.nodesWithProblems", "integer"),
        GENERATION,
        Column("STATE", f"{_STRATEGIES}:state"),
        Column("CPU-BY", ".status.effective.cpuCalculatePolicy", priority=1),
        Column("MEMORY-BY", ".status.effective.memoryCalculatePolicy", priority=1),
        Column("MARGIN", ".status.effective.safetyMarginMode", priority=1),
        Column("PRECEDENCE", f"{_STRATEGIES}:precedence", "integer", 1),
        CHANGED_BY,
    ),
    together=True,
    preview=Preview(
        "offers",
        "slackwater.colocation.edge.strategy_models:OffersTried",
        "slackwater.colocation.edge.strategy_models:preview_parameters",
    ),
    describe=f"{_STRATEGIES}:strategy_lines",
    one="colocation_strategy",
    several="colocation_strategies",
    listing="ColocationStrategies",
    nulls=True,
    example={"nodePool": "gold", "cpuReclaimThresholdPercent": 70},
)

KINDS: Final[Sequence[Kind]] = (
    NODE_QOS,
    POD_QOS,
    AVOIDANCE_ACTION,
    AUTONOMY,
    PREDICT_POLICY,
    COLOCATION_STRATEGY,
)
"""In the order of lists and help."""


def kinds_of(service: str) -> Sequence[Kind]:
    """The kinds that a service serves."""
    return tuple(kind for kind in KINDS if kind.service == service)


def kind_named(name: str) -> Kind:
    """The kind of a document's `kind`. Raises InvalidInput that lists all."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    names = [kind.name for kind in KINDS]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InvalidInput(f"kind: {name!r} is no resource kind; {hint}allowed: {', '.join(names)}", field="kind")
