"""Which strategy a node follows, in memory: always the same one, for tests."""

from __future__ import annotations

from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.domain.strategy import Strategy
from slackwater.colocation.ports import Followed


class OneStrategy:
    """slackwater.colocation.ports.Strategies. Every node follows it."""

    def __init__(self, strategy: Strategy, sources: tuple[str, ...] = ("settings",)) -> None:
        self._followed = Followed(strategy, sources)

    def of(self, state: NodeState) -> Followed:
        return self._followed
