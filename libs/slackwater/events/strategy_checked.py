"""strategy.checked: whether a ColocationStrategy or a node's own strategy is valid; published on change."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Moment, Name, Text


class StrategyChecked(Payload):
    """The result of validating a ColocationStrategy or the annotation and label of a node; published when it changes.

    Either `document` with its `generation`, or `node`, is set. `problem` says what is invalid and what is allowed; it
    is empty if all of it is valid. `followed` names the strategies in force, as resources.offered does: an invalid
    document appears with the generation that stays in force (0: only a part of it).
    """

    TYPE: ClassVar[str] = "strategy.checked"
    STREAM: ClassVar[str] = "DECISIONS"
    LISTED: ClassVar[bool] = True

    document: Name | None = None
    generation: Count = 0
    node: Name | None = None
    usable: bool
    problem: Text
    followed: Items[Name]
    checked_at: Moment

    def key(self) -> str:
        return self.node or self.document or "-"
