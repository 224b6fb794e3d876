"""The pods of a report that was read: its columns joined with the roster that they count by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from slackwater.events.measures import PodUsage
from slackwater.events.report_columns import MeasureColumns, check, usages_of
from slackwater.events.rosters import Roster
from slackwater.model.pods import Pod


class JoinedPods(Sequence[PodUsage]):
    """Sequence of pods that are built on first access: most reports are calm, and most readers need a few columns."""

    __slots__ = ("_places", "_pods", "columns", "described")

    def __init__(self, roster: Roster, columns: MeasureColumns) -> None:
        """Raises InvalidColumns."""
        described = roster.described()
        check(columns, len(described))
        self.columns = columns
        self.described: Sequence[Pod] = roster.pods
        self._places = len(described)
        self._pods: tuple[PodUsage, ...] | None = None
        if described is not roster.pods:
            self._pods = usages_of(described, columns)
            self.described = [usage.pod for usage in self._pods]

    @property
    def is_partial(self) -> bool:
        """Whether pods were left out, so that columns have more places than there are pods."""
        return len(self.described) < self._places

    def __len__(self) -> int:
        return len(self.described)

    @overload
    def __getitem__(self, place: int) -> PodUsage: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PodUsage]: ...
    def __getitem__(self, place: int | slice) -> PodUsage | Sequence[PodUsage]:
        return self.built()[place]

    def __iter__(self) -> Iterator[PodUsage]:
        return iter(self.built())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JoinedPods):
            return self.built() == other.built()
        return self.built() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.built())

    def built(self) -> tuple[PodUsage, ...]:
        """Returns the pods as a tuple."""
        if self._pods is None:
            self._pods = usages_of(self.described, self.columns)
        return self._pods
