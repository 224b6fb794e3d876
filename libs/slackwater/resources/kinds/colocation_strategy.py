"""ColocationStrategy: the declaration of the kind."""

from __future__ import annotations

from typing import Any, Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Document, Kind, Preview
from slackwater.resources.names import CLUSTER


def selected_nodes(strategy: Document) -> str:
    """The nodes that a document selects, in short form."""
    name, spec = str(strategy["metadata"]["name"]), strategy["spec"]
    selector = spec.get("nodeSelector")
    if name == CLUSTER:
        return "*"
    if selector is None:
        return f"pool={spec.get('nodePool') or name}"
    labels = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*labels, *map(_condition, selector.get("matchExpressions") or ())]) or "*"


def _condition(expression: Document) -> str:
    values = ",".join(expression.get("values") or ())
    return f"{expression['key']} {expression['operator']}" + (f" ({values})" if values else "")


def state(strategy: Document) -> str:
    """Whether the stored generation is in effect, and whether nodes follow it."""
    problems = [condition for condition in status_of(strategy, "conditions") or () if condition["status"] == "False"]
    if any(condition["type"] == "Followed" for condition in problems):
        observed = status_of(strategy, "observedGeneration")
        return (
            f"degraded: generation {observed} is in force"
            if observed
            else "degraded: only its valid parts are in force"
        )
    return "in force" if not problems else "in force, degraded by invalid node overrides"


def precedence(strategy: Document) -> str:
    """The precedence: of several documents that select a node, the highest wins."""
    return str(strategy["spec"].get("precedence") or 0)


def status_of(strategy: Document, name: str) -> Any:
    """A field of the status; None without it."""
    return (strategy.get("status") or {}).get(name)


COLOCATION_STRATEGY: Final = Kind(
    name="ColocationStrategy",
    plural="colocationstrategies",
    short=("cs", "costrat"),
    service="colocation",
    model="slackwater.colocation.usecases.colocation_strategy:ColocationStrategy",
    parent=CLUSTER,
    parent_remedy="every node follows it; change it with PUT instead (enable: false offers nothing anywhere)",
    table="strategies",
    about="how much is offered to lower tiers, for the cluster (`default`) or some nodes",
    columns=(
        NAME,
        Column("FOR", selected_nodes, json_path=".spec.nodePool"),
        Column("ENABLED", ".status.effective.enable", "boolean"),
        Column("CPU-PERCENT", ".status.effective.cpuReclaimThresholdPercent", "integer"),
        Column("MEMORY-PERCENT", ".status.effective.memoryReclaimThresholdPercent", "integer"),
        Column("MID", ".status.effective.midReclaimMode"),
        Column("NODES", ".status.nodes", "integer"),
        Column("BAD", ".status.nodesWithProblems", "integer"),
        GENERATION,
        Column("STATE", state, of_status=True),
        Column("CPU-BY", ".status.effective.cpuCalculatePolicy", priority=1),
        Column("MEMORY-BY", ".status.effective.memoryCalculatePolicy", priority=1),
        Column("MARGIN", ".status.effective.safetyMarginMode", priority=1),
        Column("PRECEDENCE", precedence, "integer", 1, json_path=".spec.precedence"),
        CHANGED_BY,
    ),
    together=True,
    preview=Preview(
        "offers",
        "slackwater.colocation.edge.strategy_models:OffersTried",
        "slackwater.colocation.edge.strategy_models:preview_parameters",
        skipped_by="offers",
        limited=True,
    ),
    nulls=True,
    example={"nodePool": "gold", "cpuReclaimThresholdPercent": 70},
)
