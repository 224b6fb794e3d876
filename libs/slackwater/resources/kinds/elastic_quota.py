"""ElasticQuota: the declaration of the kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, NO_VALUE, Column, Document, Kind, Preview
from slackwater.resources.names import CLUSTER

SHOWN_RESOURCES = 3
"""In a cell; `get -o yaml` has all."""
UNLIMITED = "unlimited"


def minimum(quota: Document) -> str:
    """The min as written."""
    return _amounts(quota["spec"].get("min") or {})


def maximum(quota: Document) -> str:
    """The max as written."""
    return _amounts(quota["spec"].get("max") or {})


def _amounts(amounts: Mapping[str, Any]) -> str:
    shown = [f"{resource}={_written(amount)}" for resource, amount in list(amounts.items())[:SHOWN_RESOURCES]]
    more = len(amounts) - len(shown)
    return ",".join([*shown, *([f"{more} more"] if more else [])]) or NO_VALUE


def _written(amount: Any) -> Any:
    """As it is in the document; what no pool can have is no limit."""
    from slackwater.fairshare.documents import MOST_BYTES, MOST_CORES  # with its models, which take 20 ms

    return UNLIMITED if amount in (MOST_BYTES, MOST_CORES) else amount


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
        Column("MIN", minimum, json_path=".spec.min"),
        Column("MAX", maximum, json_path=".spec.max"),
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
    ),
    example={"min": {"cpu": "4", "memory": "8Gi"}, "max": {"cpu": 16, "memory": "32Gi"}},
)
