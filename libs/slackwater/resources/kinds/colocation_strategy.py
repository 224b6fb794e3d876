"""ColocationStrategy: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind, Preview
from slackwater.resources.names import CLUSTER

CELLS: Final = "slackwater.cli.strategy_columns"

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
        Column("FOR", f"{CELLS}:selected_nodes", json_path=".spec.nodePool"),
        Column("ENABLED", ".status.effective.enable", "boolean"),
        Column("CPU-PERCENT", ".status.effective.cpuReclaimThresholdPercent", "integer"),
        Column("MEMORY-PERCENT", ".status.effective.memoryReclaimThresholdPercent", "integer"),
        Column("MID", ".status.effective.midReclaimMode"),
        Column("NODES", ".status.nodes", "integer"),
        Column("BAD", ".status.nodesWithProblems", "integer"),
        GENERATION,
        Column("STATE", f"{CELLS}:state", of_status=True),
        Column("CPU-BY", ".status.effective.cpuCalculatePolicy", priority=1),
        Column("MEMORY-BY", ".status.effective.memoryCalculatePolicy", priority=1),
        Column("MARGIN", ".status.effective.safetyMarginMode", priority=1),
        Column("PRECEDENCE", f"{CELLS}:precedence", "integer", 1, json_path=".spec.precedence"),
        CHANGED_BY,
    ),
    together=True,
    preview=Preview(
        "offers",
        "slackwater.colocation.edge.strategy_models:OffersTried",
        "slackwater.colocation.edge.strategy_models:preview_parameters",
        f"{CELLS}:tried_lines",
        skipped_by="offers",
        limited=True,
    ),
    describe=f"{CELLS}:strategy_lines",
    nulls=True,
    example={"nodePool": "gold", "cpuReclaimThresholdPercent": 70},
)
