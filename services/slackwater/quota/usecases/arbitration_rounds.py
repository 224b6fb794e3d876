"""Repeats the arbitration of the trees that this replica owns, and forgets claims that ended long ago."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slackwater.model.errors import Conflict
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.ports import LedgerStore, QuotaMeter
from slackwater.quota.usecases.arbitrate_tree import show_figures
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class ArbitrationRounds:
    """One replica repeats a tree's arbitration, because waiting, grace and delays change with the time alone. The
    generations keep even two of them apart."""

    def __init__(
        self,
        claims: ManageClaims,
        trees: QuotaTrees,
        store: LedgerStore,
        clock: Clock,
        meter: QuotaMeter,
        owned: Callable[[], Collection[int]],
        keep_ended_seconds: float,
    ) -> None:
        self._claims = claims
        self._trees = trees
        self._store = store
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._keep_ended = keep_ended_seconds

    def mine(self) -> Collection[str]:
        """Returns the trees that this replica owns."""
        owned = self._owned()
        return [tree for tree in self._trees.names() if partition_of(tree_key(tree)) in owned]

    async def __call__(self) -> None:
        """Decide once in each tree. Raises Unavailable."""
        for tree in self.mine():
            try:
                await self._claims.of(tree).round()
            except Conflict as error:
                log.warning("a tree is decided about later", tree=tree_key(tree), reason=error.message)

    async def show(self) -> None:
        """Put the figures of the owned trees on the meter. Raises Unavailable."""
        for tree in self.mine():
            try:
                show_figures(await self._claims.of(tree).view(), self._meter, self._clock.now())
            except Conflict as error:
                log.warning("a tree is shown later", tree=tree_key(tree), reason=error.message)

    async def drop_ended(self) -> None:
        """Forget claims that ended long ago; the decision records stay. Raises Unavailable."""
        if partition_of(tree_key("")) in self._owned():
            await self._store.drop_ended(self._clock.now().timestamp() - self._keep_ended)
