"""PredictPolicy: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, ONE_PER_POOL, Column, Document, Kind
from slackwater.resources.names import CLUSTER


def pool_of(policy: Document) -> str:
    """The pool of a PredictPolicy; `*` for the policy of all pools without their own."""
    name = str(policy["metadata"]["name"])
    return "*" if name == CLUSTER else str(policy["spec"].get("nodePool") or name)


def state(policy: Document) -> str:
    """Whether the stored generation is in effect."""
    status = policy.get("status") or {}
    if status.get("problem"):
        return (
            f"degraded: generation {kept} is in force"
            if (kept := status["observedGeneration"])
            else "degraded: not in force"
        )
    return "in force"


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
        Column("POOL", pool_of, json_path=".spec.nodePool"),
        Column("CPU", ".status.effective.cpu.name"),
        Column("CPU-RATE", ".status.effective.cpu.settings.violation_rate", "number"),
        Column("MEMORY", ".status.effective.memory.name"),
        Column("MEMORY-RATE", ".status.effective.memory.settings.violation_rate", "number"),
        GENERATION,
        Column("STATE", state, of_status=True),
        Column("FOLD", ".status.effective.cadence.histogramUpdateIntervalSeconds", "number", 1),
        Column("REPORT", ".status.effective.cadence.reportingIntervalSeconds", "number", 1),
        Column("CHECK", ".status.effective.cadence.checkPredictionIntervalSeconds", "number", 1),
        Column("DIFF", ".status.effective.cadence.resourceDiffThreshold", "number", 1),
        Column("FORCE", ".status.effective.cadence.forceUpdateIntervalSeconds", "number", 1),
        Column("PROTECT-LSR", ".status.effective.protectLSR", "boolean", 1),
        CHANGED_BY,
    ),
    unique=ONE_PER_POOL,
    nulls=True,
    example={"nodePool": "gold", "violationRate": 0.01},
)
