"""The ports of a simulation: a history by period or by scene, and a progress display."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from slackwater.offers.closed_loop import Period
from slackwater.simulation.domain.scenes import SceneNode, UsageScene


class SimulationProgress(Protocol):
    """Displays progress."""

    def begin(self, what: str, steps: int | None) -> None:
        """Starts a new phase. `steps` is its length; None: unknown."""
        ...

    def advance(self, steps: int) -> None:
        """Called when `steps` more are done."""
        ...


class History(Protocol):
    """Capacity, usage and predictions of nodes: all inputs of the offers, which a strategy computes from it."""

    @property
    def title(self) -> str:
        """The source of the history, for display."""
        ...

    @property
    def nodes(self) -> Sequence[str]:
        """Names of the nodes, in the order of the rows of every period."""
        ...

    @property
    def period_seconds(self) -> float:
        """Length of a period."""
        ...

    @property
    def steps(self) -> int:
        """Number of periods."""
        ...

    @property
    def start_seconds(self) -> float:
        """Start of the first period that counts, in seconds since 1970 or since the start of the trace."""
        ...

    @property
    def first(self) -> int:
        """The first period that counts; earlier periods are warm-up of predictions and offers."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Limitations of the history, for display with the figures."""
        ...

    def periods(self) -> Iterator[Period]:
        """Yields the periods in order of time."""
        ...


class SceneHistory(Protocol):
    """The demand of the pods of nodes: all inputs of limits and evictions, which a policy decides from it."""

    @property
    def title(self) -> str:
        """The source of the history, for display."""
        ...

    @property
    def nodes(self) -> Sequence[SceneNode]:
        """The nodes, in the order of the scenes of every instant."""
        ...

    @property
    def period_seconds(self) -> int:
        """Length of a scene."""
        ...

    @property
    def steps(self) -> int:
        """Number of instants."""
        ...

    @property
    def start_seconds(self) -> float:
        """Start of the first scene, in seconds since 1970 or since the start of the trace."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Limitations of the history, for display with the figures."""
        ...

    def scenes(self) -> Iterator[Sequence[UsageScene | None]]:
        """Yields the scenes of all nodes in order of time; None: the node is absent."""
        ...
