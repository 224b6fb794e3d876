"""What the use cases need: trees, claims and uses in one transaction, and meters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from slackwater.events.envelope import Event
from slackwater.quota.domain.ledger_records import KeptClaim, QuotaUse, StoredTree
from slackwater.quota.domain.past_trees import PastTree
from slackwater.store.port import UnitOfWork

TREES: Final = "quota_trees"
CLAIMS: Final = "claims"
ENDED_CLAIMS: Final = "ended_claims"
USES: Final = "quota_uses"
PAST: Final = "tree_history"
"""Tables, as the quarantine names them."""


class LedgerUnit(Protocol):
    """One transaction."""

    async def tree(self, tree: str) -> StoredTree:
        """Returns the tree as stored; generation 0 if it never was."""
        ...

    async def lock(self, tree: str) -> StoredTree:
        """Returns the tree as stored, which no other transaction then advances; generation 0 if it never was."""
        ...

    async def claims(self, tree: str) -> Sequence[KeptClaim]:
        """Returns the claims of a tree that have not ended, by id."""
        ...

    async def live(self) -> Sequence[KeptClaim]:
        """Returns the claims of all trees that have not ended, by id."""
        ...

    async def ended(self) -> Sequence[KeptClaim]:
        """Returns the claims of all trees that have ended and are still kept."""
        ...

    async def find(self, ids: Collection[str]) -> Mapping[str, KeptClaim]:
        """Returns these claims of any tree, also ended ones that are still kept."""
        ...

    async def advance(self, tree: StoredTree) -> StoredTree:
        """Write the tree in its next generation, before anything else of it. Raises Conflict if another was written
        since."""
        ...

    async def save(self, new: Sequence[KeptClaim], changed: Sequence[KeptClaim]) -> None:
        """Insert and update claims; ended ones are kept apart. Raises Conflict if another claim has the id of a new
        one."""
        ...

    async def save_uses(self, uses: Sequence[QuotaUse]) -> None:
        """Write what quotas use."""
        ...

    async def remember(self, past: PastTree) -> None:
        """Write a tree as it is at a moment."""
        ...

    async def past(self, tree: str, at_s: float) -> PastTree | None:
        """Returns the last remembered state of a tree that is not later; None if none is kept."""
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Publish when the unit commits."""
        ...


class LedgerStore(Protocol):
    """Where trees and claims are kept."""

    def unit_of_work(self) -> AbstractAsyncContextManager[LedgerUnit]:
        """Begin a transaction. Raises Unavailable."""
        ...

    def joined(self, unit: UnitOfWork) -> LedgerUnit:
        """Returns the ledger within a transaction that another store of this service has begun."""
        ...

    async def drop_ended(self, before_s: float) -> int:
        """Delete claims that ended before; returns how many. Raises Unavailable."""
        ...

    async def drop_past(self, tree: str, before_s: float) -> int:
        """Delete the states of a tree from before; returns how many. Raises Unavailable."""
        ...
