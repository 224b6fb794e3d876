"""A copy of the objects of one kind, and the changes between two states of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from slackwater.apiserver.port import WatchChange, WatchEvent
from slackwater.apiserver.records import ApiRecord

T = TypeVar("T", bound=ApiRecord)


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[T]):
    """One object before and after: None where it is not there. Both have the same uid."""

    before: T | None
    after: T | None


def changes_between(before: Mapping[str, T], after: Mapping[str, T]) -> list[ObjectChange[T]]:
    """What turns one state into the other, deletions first. An object that was deleted and created anew under its key
    is two changes."""
    gone = [
        ObjectChange(item, None)
        for key, item in before.items()
        if (other := after.get(key)) is None or other.uid != item.uid
    ]
    return [*gone, *(change for item in after.values() for change in _written(before.get(item.key), item))]


def _written(known: T | None, item: T) -> Iterable[ObjectChange[T]]:
    if known is None or known.uid != item.uid:
        yield ObjectChange(None, item)
    elif known != item:
        yield ObjectChange(known, item)


class Mirror(Generic[T]):
    """The objects of one kind by key. `synced` once it was listed."""

    def __init__(self) -> None:
        self._items: dict[str, T] = {}
        self.synced = False

    @property
    def items(self) -> Mapping[str, T]:
        return self._items

    def replace(self, items: Iterable[T]) -> Sequence[ObjectChange[T]]:
        """Set the state to that of a list; returns the changes, with what was deleted meanwhile."""
        after = {item.key: item for item in items}
        changes = changes_between(self._items, after)
        self._items, self.synced = after, True
        return changes

    def apply(self, event: WatchEvent[T]) -> Sequence[ObjectChange[T]]:
        """Apply one event. Repeating an event changes nothing."""
        item = event.item
        if item is None:
            return ()
        known = self._items.get(item.key)
        if event.change is WatchChange.DELETED:
            if known is None or known.uid != item.uid:
                return ()
            del self._items[item.key]
            return (ObjectChange(known, None),)
        self._items[item.key] = item
        gone = [ObjectChange(known, None)] if known is not None and known.uid != item.uid else []
        return [*gone, *_written(known, item)]
