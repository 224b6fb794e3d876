"""What ElasticQuotas and QuotaProfiles are checked for together, and what a change of them would do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from slackwater.fairshare.documents import (
    DeclaredQuota,
    ElasticQuota,
    QuotaPool,
    QuotaProfile,
    default_document,
    pool_of,
    quota_of,
)
from slackwater.fairshare.tree import Amounts, Quota, amount_text
from slackwater.fairshare.validation import QuotaRefusal, QuotaRule, deletion_refusals, refusals
from slackwater.model.errors import Conflict, InvalidInput, SlackwaterError
from slackwater.resources.hooks import Hooks, InForce
from slackwater.resources.names import CLUSTER
from slackwater.resources.store import StoredResource

MOST_TOLD: Final = 3
"""Further refusals of one change are counted."""
QuotasInForce = InForce[ElasticQuota, DeclaredQuota]
CountClaims = Callable[[], Awaitable[Mapping[str, int]]]
CountForChange = Callable[[Any, Collection[str], int], Awaitable[Mapping[str, int]]]
"""As slackwater.quota.usecases.manage_claims.ManageClaims.counts_for_change."""
Preview = Callable[[Mapping[str, DeclaredQuota], Mapping[str, DeclaredQuota]], Awaitable[Any]]


async def _no_claims() -> Mapping[str, int]:
    return {}


async def _none_for_change(unit: Any, trees: Collection[str], revision: int) -> Mapping[str, int]:
    return {}


class ElasticQuotaHooks(Hooks[ElasticQuota, DeclaredQuota]):
    """Refuses what would break the tree. `claims` counts the live claims of each quota, `claims_for_change` in the
    transaction of a change; `preview` is what a dry run shows of the quotas before and after."""

    def __init__(
        self,
        claims: CountClaims = _no_claims,
        claims_for_change: CountForChange = _none_for_change,
        preview: Preview | None = None,
    ) -> None:
        self.follow(claims, claims_for_change, preview)

    def follow(
        self,
        claims: CountClaims,
        claims_for_change: CountForChange,
        preview: Preview | None,
        totals: Callable[[], Mapping[str, Amounts]] = dict,
    ) -> None:
        """Use these from now on: they are made of what the hooks resolve. `totals`: what each pool has, by tree."""
        self._claims, self._claims_for_change, self._preview, self._totals = claims, claims_for_change, preview, totals

    def first(self) -> ElasticQuota:
        return default_document(CLUSTER)

    def resolve(self, document: ElasticQuota, parent: DeclaredQuota | None) -> DeclaredQuota:
        return quota_of(document)

    async def prepare(self) -> Mapping[str, int]:
        return await self._claims()

    def validate_together(
        self, changed: Collection[str], now: QuotasInForce, would: QuotasInForce, prepared: Any
    ) -> None:
        claims: Mapping[str, int] = prepared
        quotas = {name: declared.quota for name, declared in would.values.items()}
        before = {name: declared.quota for name, declared in now.values.items()}
        for name in sorted(changed):
            if name in quotas:
                broken = [*refusals(quotas, quotas[name], claims), *_moved(before, quotas[name], claims)]
            else:
                broken = deletion_refusals(quotas, name, claims)
            if broken:
                raise _refused(name, broken)

    async def confirm(self, unit: Any, replaced: Sequence[StoredResource], would: QuotasInForce) -> None:
        """Refuse to take a quota from claims that were admitted since `prepare`, or are being admitted."""
        present = {row.name: quota for row in replaced if (quota := _readable(row)) is not None}
        taken = {name: quota.spec.tree for name, quota in present.items() if _takes_no_claims(quota, would)}
        if taken:
            claims = await self._claims_for_change(unit, set(taken.values()), would.revision)
            self.validate_together(sorted(taken), would, would, claims)

    def notice(self, value: DeclaredQuota) -> str:
        """Returns what no node has of what a quota declares, as far as it is known what nodes have."""
        return unoffered(value.quota, self._totals().get(value.quota.tree, {}))

    async def preview(self, now: QuotasInForce, would: QuotasInForce, arguments: object) -> Any:
        return None if self._preview is None else await self._preview(now.values, would.values)


class QuotaProfileHooks(Hooks[QuotaProfile, QuotaPool]):
    """A profile comes to the tree and the pool it names."""

    def resolve(self, document: QuotaProfile, parent: QuotaPool | None) -> QuotaPool:
        return pool_of(document)

    def validate_together(
        self,
        changed: Collection[str],
        now: InForce[QuotaProfile, QuotaPool],
        would: InForce[QuotaProfile, QuotaPool],
        prepared: Any,
    ) -> None:
        for name in sorted(set(changed) & would.values.keys()):
            tree = would.values[name].tree
            others = [other for other, pool in sorted(would.values.items()) if other != name and pool.tree == tree]
            if others:
                said = f"spec.tree: tree {tree} is that of quotaprofile {others[0]}: a tree has one pool; name another"
                raise Conflict(said, code="quota_tree_taken", field="spec.tree")


def unoffered(quota: Quota, total: Amounts) -> str:
    """Returns what a quota declares that its pool does not have: a resource, or a min; empty before the pool has
    any."""
    if not any(total.values()):
        return ""
    missing = sorted({*quota.maximum, *quota.minimum} - {key for key, amount in total.items() if amount > 0})
    warnings = [f"no node has {', '.join(missing)}: claims for it wait until one has"] if missing else []
    warnings += [
        f"min {amount_text(resource, amount)} {resource} is more than the {amount_text(resource, total[resource])}"
        " of all nodes"
        for resource, amount in sorted(quota.minimum.items())
        if resource not in missing and amount > total[resource]
    ]
    return f"quota {quota.name}: {'; '.join(warnings)}" if warnings else ""


def _readable(row: StoredResource) -> ElasticQuota | None:
    try:
        return None if row.document is None else ElasticQuota.parse_stored(row.document)
    except InvalidInput:
        return None


def _takes_no_claims(present: ElasticQuota, would: QuotasInForce) -> bool:
    """Whether a quota that may have claims is deleted, or becomes a parent."""
    after = would.values.get(present.name)
    return not present.spec.is_parent and (after is None or after.quota.is_parent)


def _moved(before: Mapping[str, Quota], new: Quota, claims: Mapping[str, int]) -> list[QuotaRefusal]:
    """A tree is for life: what a quota lends and borrows would change its lender."""
    old = before.get(new.name)
    if old is None or old.tree == new.tree:
        return []
    return [QuotaRefusal(QuotaRule.TREE, "spec.tree", f"a quota stays in its tree: {old.tree!r}, not {new.tree!r}")]


def _refused(name: str, found: list[QuotaRefusal]) -> SlackwaterError:
    told = "; ".join(f"{refusal.field}: {refusal.message}" for refusal in found[:MOST_TOLD])
    more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
    message = f"{told}{more} (elasticquota {name})"
    if found[0].rule is QuotaRule.IN_USE:
        return Conflict(message, code="quota_in_use", field=found[0].field)
    return InvalidInput(message, code="quota_refused", field=found[0].field)
