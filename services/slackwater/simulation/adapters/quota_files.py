"""From files with ElasticQuota and QuotaProfile to the tree that a trace is replayed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.fairshare.documents import DeclaredQuota, ElasticQuota, QuotaProfile, pool_of, quota_of
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import BrokenTree, Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.validation import refusals
from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.document_files import Body, DocumentFile


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """One tree and how its queues are served."""

    name: str
    layout: TreeLayout
    queue_policies: Mapping[str, QueuePolicy]
    non_preemptible: frozenset[str]
    percent: int
    """Of the pool that the tree gives out."""

    @property
    def leaves(self) -> Sequence[str]:
        """Quotas that take claims, by name."""
        return sorted(
            quota.name
            for quota in self.layout.order
            if quota.name not in self.layout.with_children and not quota.is_parent
        )


def read_quotas(file: DocumentFile) -> QuotaFile:
    """Raises InvalidInput for an invalid document, a broken rule, and quotas of more than one tree."""
    quotas: dict[str, Quota] = {}
    policies: dict[str, QueuePolicy] = {}
    kept: set[str] = set()
    profiles = []
    for body in file.bodies:
        if body.kind == "QuotaProfile":
            profiles.append(_parsed_profile(body))
            continue
        declared = _parsed_quota(body)
        quota = declared.quota
        if quota.name in quotas:
            raise InvalidInput(f"{body.origin}: quota {quota.name} is declared twice", field="metadata.name")
        quotas[quota.name] = quota
        policies[quota.name] = QueuePolicy.STRICT_FIFO if declared.strict_fifo else QueuePolicy.BEST_EFFORT_FIFO
        if declared.non_preemptible:
            kept.add(quota.name)
    _check(file, quotas)
    if len(profiles) > 1:
        raise InvalidInput(f"{file.name}: a trace is one pool; keep one QuotaProfile", field="kind")
    percent = pool_of(profiles[0]).percent if profiles else 100
    try:
        layout = TreeLayout(list(quotas.values()))
    except BrokenTree as error:
        raise InvalidInput(f"{file.name}: {error}", field="spec.parent") from error
    return QuotaFile(file.name, layout, policies, frozenset(kept), percent)


def _check(file: DocumentFile, quotas: Mapping[str, Quota]) -> None:
    if not quotas:
        raise InvalidInput(f"{file.name}: has no ElasticQuota", field="kind")
    trees = sorted({quota.tree for quota in quotas.values()})
    if len(trees) > 1:
        named = ", ".join(repr(tree) for tree in trees)
        raise InvalidInput(f"{file.name}: quotas of several trees ({named}); a trace is one pool", field="spec.tree")
    for quota in quotas.values():
        for refusal in refusals(quotas, quota, {}):
            raise InvalidInput(f"{file.name}: quota {quota.name}: {refusal.message}", field=refusal.field)


def _parsed_quota(body: Body) -> DeclaredQuota:
    try:
        return quota_of(ElasticQuota.parse(body.said))
    except ValueError as error:
        raise InvalidInput(f"{body.origin}: {error}") from error


def _parsed_profile(body: Body) -> QuotaProfile:
    try:
        return QuotaProfile.parse(body.said)
    except ValueError as error:
        raise InvalidInput(f"{body.origin}: {error}") from error
