"""What a simulation needs from outside: a history, period by period or scene by scene, and somebody who watches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from slackwater.offers.closed_loop import Period
from slackwater.simulation.domain.scenes import SceneNode, UsageScene


class SimulationProgress(Protocol):
    """Somebody who wants to know how far it is."""

    def begin(self, what: str, steps: int | None) -> None:
        """Something new is done; None: nobody knows how long it is."""
        ...

    def advance(self, steps: int) -> None:
        """So much more is done."""
        ...


class History(Protocol):
    """What nodes had and used, and what was predicted of them: everything but offers, which a strategy makes of it."""

    @property
    def title(self) -> str:
        """Where it is from, for people."""
        ...

    @property
    def nodes(self) -> Sequence[str]:
        """Their names, in the order of every period's rows."""
        ...

    @property
    def period_seconds(self) -> float:
        """How long each period is."""
        ...

    @property
    def steps(self) -> int:
        """How many periods there are."""
        ...

    @property
    def start_seconds(self) -> float:
        """When the first one that counts begins, seconds since 1970 (or since the trace's own zero)."""
        ...

    @property
    def first(self) -> int:
        """The first period that counts; before it only predictions are learned and offers are made."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the figures should know of it."""
        ...

    def periods(self) -> Iterator[Period]:
        """In the order of time."""
        ...


class SceneHistory(Protocol):
    """What the pods of nodes wanted: everything but limits and evictions, which a policy makes of it."""

    @property
    def title(self) -> str:
        """Where it is from, for people."""
        ...

    @property
    def nodes(self) -> Sequence[SceneNode]:
        """In the order of every moment's scenes."""
        ...

    @property
    def period_seconds(self) -> int:
        """How long each scene is."""
        ...

    @property
    def steps(self) -> int:
        """How many moments there are."""
        ...

    @property
    def start_seconds(self) -> float:
        """When the first one begins, seconds since 1970 (or since the trace's own zero)."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the figures should know of it."""
        ...

    def scenes(self) -> Iterator[Sequence[UsageScene | None]]:
        """In the order of time; None: the node is not there."""
        ...
