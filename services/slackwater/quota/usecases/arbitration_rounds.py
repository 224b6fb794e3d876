"""Repeats the arbitration of the trees that this replica owns, and forgets claims that ended long ago."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slackwater.model.errors import Conflict
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.domain.past_trees import PastTree
from slackwater.quota.metrics import QuotaMetrics
from slackwater.quota.ports import LedgerStore
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.quota.usecases.tree_view import TreeView, show_figures
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
        meter: QuotaMetrics,
        owned: Callable[[], Collection[int]],
        keep_ended_seconds: float,
        keep_history_seconds: float,
    ) -> None:
        self._claims = claims
        self._trees = trees
        self._store = store
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._keep_ended = keep_ended_seconds
        self._keep_history = keep_history_seconds
        self._remembered: dict[str, PastTree] = {}

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

    async def _remember(self, view: TreeView) -> None:
        past, last = view.past(self._clock.now().timestamp()), self._remembered.get(view.tree)
        if last is None or not past.is_same(last):
            async with self._store.unit_of_work() as unit:
                await unit.remember(past)
            self._remembered[view.tree] = past

    async def show(self) -> None:
        """Put the figures of the owned trees on the meter, and remember them if they changed. Raises Unavailable."""
        for tree in self.mine():
            try:
                view = await self._claims.of(tree).view()
                await self._remember(view)
                show_figures(view, self._meter, self._clock.now())
            except Conflict as error:
                log.warning("a tree is shown later", tree=tree_key(tree), reason=error.message)

    async def drop_ended(self) -> None:
        """Forget claims that ended, and states of trees, long ago; the decision records stay. Raises Unavailable."""
        for tree in self.mine():
            await self._store.drop_past(tree, self._clock.now().timestamp() - self._keep_history)
        if partition_of(tree_key("")) in self._owned():
            await self._store.drop_ended(self._clock.now().timestamp() - self._keep_ended)
