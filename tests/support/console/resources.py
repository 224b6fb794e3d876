"""Documents of resource kinds, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slackwater.console.domain.resources import KEPT_GENERATIONS, ResourceView


def newest_of(generations: Sequence[ResourceView]) -> list[ResourceView]:
    """The newest generation of each document that is not deleted, by name."""
    newest: dict[tuple[str, str], ResourceView] = {}
    for view in sorted(generations, key=lambda view: view.generation):
        newest[view.kind, view.name] = view
    return sorted((view for view in newest.values() if not view.deleted), key=lambda view: (view.kind, view.name))


class MemoryResources:
    """Implements slackwater.console.ports.ResourceReads and the related write."""

    def __init__(self) -> None:
        super().__init__()
        self._generations: dict[tuple[str, str], dict[int, ResourceView]] = {}

    async def save_resources(self, rows: Sequence[ResourceView]) -> None:
        for row in rows:
            known = self._generations.setdefault((row.kind, row.name), {})
            known[row.generation] = row
            for generation in sorted(known)[:-KEPT_GENERATIONS]:
                del known[generation]

    async def resource_counts(self) -> Mapping[str, int]:
        return Counter(view.kind for view in self._present())

    async def resources(self, kind: str) -> Sequence[ResourceView]:
        return [view for view in self._present() if view.kind == kind]

    async def resource_generations(self, kind: str, name: str) -> Sequence[ResourceView]:
        known = self._generations.get((kind, name), {})
        return [known[generation] for generation in sorted(known, reverse=True)]

    def _present(self) -> list[ResourceView]:
        return newest_of([view for known in self._generations.values() for view in known.values()])
