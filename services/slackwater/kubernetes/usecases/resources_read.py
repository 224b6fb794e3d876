"""The custom resources of all kinds, and the admission policy of profiles, as read from the API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from slackwater.apiserver.mirror import Mirror
from slackwater.apiserver.objects import LIMIT_RANGES, MUTATION_BINDINGS, MUTATIONS, QUOTAS, ObjectRecord, document_kind
from slackwater.apiserver.port import WatchEvent
from slackwater.apiserver.records import ApiRecord, WatchedKind
from slackwater.profiles.limits import limited_namespaces
from slackwater.resources.catalog import KINDS
from slackwater.resources.kind import Kind

T = TypeVar("T", bound=ApiRecord)
DOCUMENT_KINDS: Final[Mapping[str, tuple[Kind, WatchedKind[ObjectRecord]]]] = {
    kind.plural: (kind, document_kind(kind)) for kind in KINDS
}
"""Every kind of documents by plural, with its custom resources."""
POLICY_KINDS: Final = (MUTATIONS, MUTATION_BINDINGS)
LIMITING_KINDS: Final = (QUOTAS, LIMIT_RANGES)
"""What limits the pods of a namespace (slackwater.profiles.limits)."""


class ResourcesRead:
    """slackwater.apiserver.kind_follower.RecordSink. `changed` is called after every change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._mirrors: dict[str, Mirror[Any]] = {
            kind.plural: Mirror()
            for kind in (*(watched for _, watched in DOCUMENT_KINDS.values()), *POLICY_KINDS, *LIMITING_KINDS)
        }

    def is_synced(self, plural: str) -> bool:
        """Whether a kind was listed: then what is missing does not exist."""
        return self._mirrors[plural].synced

    def items(self, plural: str) -> Mapping[str, ObjectRecord]:
        return self._mirrors[plural].items

    def limited_namespaces(self) -> Mapping[str, str] | None:
        """What limits each namespace; None: not listed yet."""
        if not all(self.is_synced(kind.plural) for kind in LIMITING_KINDS):
            return None
        return limited_namespaces(
            (kind.kind, key, item.read_spec() or {})
            for kind in LIMITING_KINDS
            for key, item in self.items(kind.plural).items()
        )

    def replace(self, kind: WatchedKind[T], items: Iterable[T]) -> Sequence[object]:
        """Set a kind to the state of a list."""
        self._changed()
        return self._mirrors[kind.plural].replace(items)

    def apply(self, kind: WatchedKind[T], event: WatchEvent[T]) -> Sequence[object]:
        """Apply an event of a watch."""
        changes = self._mirrors[kind.plural].apply(event)
        if changes:
            self._changed()
        return changes
