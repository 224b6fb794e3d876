"""PredictPolicy: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, ONE_PER_POOL, Column, Kind
from slackwater.resources.names import CLUSTER

CELLS: Final = "slackwater.cli.policy_columns"

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
        Column("POOL", f"{CELLS}:pool_of", json_path=".spec.nodePool"),
        Column("CPU", ".status.effective.cpu.name"),
        Column("CPU-RATE", ".status.effective.cpu.settings.violation_rate", "number"),
        Column("MEMORY", ".status.effective.memory.name"),
        Column("MEMORY-RATE", ".status.effective.memory.settings.violation_rate", "number"),
        GENERATION,
        Column("STATE", f"{CELLS}:state", of_status=True),
        Column("FOLD", ".status.effective.cadence.histogramUpdateIntervalSeconds", "number", 1),
        Column("REPORT", ".status.effective.cadence.reportingIntervalSeconds", "number", 1),
        Column("CHECK", ".status.effective.cadence.checkPredictionIntervalSeconds", "number", 1),
        Column("DIFF", ".status.effective.cadence.resourceDiffThreshold", "number", 1),
        Column("FORCE", ".status.effective.cadence.forceUpdateIntervalSeconds", "number", 1),
        Column("PROTECT-LSR", ".status.effective.protectLSR", "boolean", 1),
        CHANGED_BY,
    ),
    unique=ONE_PER_POOL,
    describe=f"{CELLS}:policy_lines",
    nulls=True,
    example={"nodePool": "gold", "violationRate": 0.01},
)
