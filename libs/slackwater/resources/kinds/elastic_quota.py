"""ElasticQuota: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind, Preview
from slackwater.resources.names import CLUSTER

ELASTIC_QUOTA: Final = Kind(
    name="ElasticQuota",
    plural="elasticquotas",
    short=("eq", "quota", "quotas"),
    service="quota",
    model="slackwater.fairshare.documents:ElasticQuota",
    hooks="slackwater.quota.usecases.quota_documents:ElasticQuotaHooks",
    parent=CLUSTER,
    inherits=False,
    parent_remedy="claims that name no quota go there; change it with PUT instead",
    about="how much the claims of a team may use, what they are promised, and what they may borrow",
    columns=(
        NAME,
        Column("PARENT", ".spec.parent"),
        Column("MIN", "slackwater.cli.quota_columns:minimum", json_path=".spec.min"),
        Column("MAX", "slackwater.cli.quota_columns:maximum", json_path=".spec.max"),
        Column("LENDS", ".spec.allowLentResource", "boolean"),
        Column("IS-PARENT", ".spec.isParent", "boolean", 1),
        Column("TREE", ".spec.tree", priority=1),
        Column("QUEUE", ".spec.queuePolicy", priority=1),
        GENERATION,
        CHANGED_BY,
    ),
    together=True,
    nulls=True,
    preview=Preview(
        "runtimes",
        "slackwater.quota.edge.runtime_models:RuntimesTried",
        "slackwater.quota.edge.runtime_models:preview_parameters",
        "slackwater.cli.quota_columns:tried_lines",
    ),
    example={"min": {"cpu": "4", "memory": "8Gi"}, "max": {"cpu": 16, "memory": "32Gi"}},
)
