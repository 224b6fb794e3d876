"""QuotaProfile: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, ONE_PER_POOL, Column, Document, Kind


def pool(profile: Document) -> str:
    """The pool whose nodes the tree shares."""
    return str(profile["spec"].get("nodePool") or profile["metadata"]["name"])


def tree(profile: Document) -> str:
    """The tree that quotas name."""
    return str(profile["spec"].get("tree") or profile["metadata"]["name"])


QUOTA_PROFILE: Final = Kind(
    name="QuotaProfile",
    plural="quotaprofiles",
    short=("qp",),
    service="quota",
    model="slackwater.fairshare.documents:QuotaProfile",
    hooks="slackwater.quota.usecases.quota_documents:QuotaProfileHooks",
    about="a tree of quotas over a node pool; its root is what the pool has",
    columns=(
        NAME,
        Column("POOL", pool, json_path=".spec.nodePool"),
        Column("TREE", tree, json_path=".spec.tree"),
        Column("PERCENT", ".spec.resourcePercent", "integer"),
        GENERATION,
        CHANGED_BY,
    ),
    unique=ONE_PER_POOL,
    example={"nodePool": "gold", "resourcePercent": 90},
)
