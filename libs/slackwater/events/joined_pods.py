"""The pods of a report that was read: its columns joined with the roster that they count by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

from slackwater.events.measures import PodUsage
from slackwater.events.report_columns import MeasureColumns, check, usages_of
from slackwater.events.rosters import Roster
from slackwater.model.pods import Pod

R = TypeVar("R")


class LazyRows(Sequence[R]):
    """Sequence of rows that are built from columns on first access: most readers need a few columns."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: tuple[R, ...] | None = None

    def build(self) -> tuple[R, ...]:
        raise NotImplementedError

    def built(self) -> tuple[R, ...]:
        """Returns the rows as a tuple."""
        if self._rows is None:
            self._rows = self.build()
        return self._rows

    @overload
    def __getitem__(self, place: int) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[R]: ...
    def __getitem__(self, place: int | slice) -> R | Sequence[R]:
        return self.built()[place]

    def __iter__(self) -> Iterator[R]:
        return iter(self.built())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyRows):
            return self.built() == other.built()
        return self.built() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.built())


class JoinedPods(LazyRows[PodUsage]):
    """The pods of a report, in the order of its roster."""

    __slots__ = ("_places", "columns", "described")

    def __init__(self, roster: Roster, columns: MeasureColumns) -> None:
        """Raises InvalidColumns."""
        super().__init__()
        described = roster.described()
        check(columns, len(described))
        self.columns = columns
        self.described: Sequence[Pod] = roster.pods
        self._places = len(described)
        if described is not roster.pods:
            self._rows = usages_of(described, columns)
            self.described = [usage.pod for usage in self._rows]

    @property
    def is_partial(self) -> bool:
        """Whether pods were left out, so that columns have more places than there are pods."""
        return len(self.described) < self._places

    def __len__(self) -> int:
        return len(self.described)

    def build(self) -> tuple[PodUsage, ...]:
        return usages_of(self.described, self.columns)
