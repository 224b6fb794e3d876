"""strategy.checked: something that an operator wrote about offers cannot be used, or can be again."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Moment, Name, Text


class StrategyChecked(Payload):
    """What was found of a ColocationStrategy, or of the words of a node about its own; told when that changes.

    Either `document` with its `generation`, or `node`, is given. `problem` says what is wrong and what is allowed; it
    is empty when all can be used (again). `followed` names what counts from now on, as resources.offered does: a
    document that cannot be used is in it with the generation that still counts (0: only a part of it does).
    """

    TYPE: ClassVar[str] = "strategy.checked"
    STREAM: ClassVar[str] = "DECISIONS"

    document: Name | None = None
    generation: Count = 0
    node: Name | None = None
    usable: bool
    problem: Text
    followed: Items[Name]
    checked_at: Moment

    def key(self) -> str:
        return self.node or self.document or "-"
