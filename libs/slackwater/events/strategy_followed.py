"""strategy.followed: a ColocationStrategy as it counts now, for who shows strategies. Last value per document."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import AnyAmount, Count, JsonDocument, Moment, Name, Text


class StrategyFollowed(Payload):
    """Told whenever documents change, by one replica for each of them.

    `generation` is stored, `observed_generation` is the one that counts (0: only a part of it does); they differ while
    `problem` says why the stored one cannot be used. `nodes` says in words for which nodes it is, `fields` what it says
    itself, `effective` what it comes to with the cluster's, the settings and the defaults. `accepted_at` is when the
    generation that counts was stored, None where that is not known any more. `gone`: it was deleted; the rest is void.
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
