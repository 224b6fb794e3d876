"""strategy.followed: a ColocationStrategy as it is in force, for display. Last value per document."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import AnyAmount, Count, JsonDocument, Moment, Name, Text


class StrategyFollowed(Payload):
    """The state of one strategy document, published on every change by one replica per document.

    `generation` is the stored one, `observed_generation` the one in force (0: only a part of it). They differ while the
    stored one is invalid; `problem` says why. `nodes` describes the selected nodes, `fields` are those that the
    document sets, `effective` the result of merging it with the cluster's document, the settings and the defaults.
    `accepted_at` is when the generation in force was stored, None if unknown. `gone`: the document was deleted; the
    rest is void.
    """

    TYPE: ClassVar[str] = "strategy.followed"
    STREAM: ClassVar[str] = "STATE"

    document: Name
    generation: Count
    observed_generation: Count = 0
    nodes: Text = ""
    precedence: AnyAmount = 0
    fields: JsonDocument = Field(default_factory=dict)
    effective: JsonDocument = Field(default_factory=dict)
    problem: Text = ""
    changed_by: Name = ""
    accepted_at: Moment | None = None
    gone: bool = False
    told_at: Moment

    def key(self) -> str:
        return self.document
