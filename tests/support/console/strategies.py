"""Strategies in effect, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slackwater.console.domain.strategies import StrategyView
from slackwater.console.domain.views import NodeView


class MemoryStrategies:
    """Implements slackwater.console.ports.StrategyReads and the related write."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[str, NodeView] = {}
        self._strategies: dict[str, StrategyView] = {}

    async def save_strategies(self, rows: Sequence[StrategyView]) -> None:
        for row in rows:
            known = self._strategies.get(row.document)
            if known is None or row.told_at >= known.told_at:
                self._strategies[row.document] = row

    async def strategies(self) -> Sequence[StrategyView]:
        return [self._strategies[name] for name in sorted(self._strategies)]

    async def followers(self) -> Mapping[str, int]:
        return Counter(source for node in self._nodes.values() if node.offer for source in node.offer.strategies)
