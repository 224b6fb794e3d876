"""The API server as Slackwater uses it, and what its refusals mean.

Besides the errors below, methods raise Unavailable if the server does not answer or is overloaded, and Misconfigured
if it refuses the credentials or a right is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from slackwater.apiserver.records import ApiRecord, ClusterNode, Taint, WatchedKind
from slackwater.model.errors import Conflict, Misconfigured, Unavailable

if TYPE_CHECKING:  # an agent reads no such objects, and must not pay for them
    from slackwater.apiserver.objects import SecretRecord

T = TypeVar("T", bound=ApiRecord)


class VersionExpired(Conflict):
    """The server no longer has this version: list again (410)."""

    code = "version_expired"


class KindNotServed(Misconfigured):
    """The server has no such kind: a definition is not installed, or the server is of an older version."""

    code = "kind_not_served"


class DefinitionOutdated(Misconfigured):
    """The custom resource definition in the cluster lacks what this version writes: it is of an older one."""

    code = "definition_outdated"


class RightMissing(Misconfigured):
    """The account lacks a right: `right` names it, as `patch nodes/status` or `list jobs.batch`."""

    def __init__(self, message: str, right: str) -> None:
        super().__init__(message)
        self.right = right


class FieldsOwned(Conflict):
    """Another field manager owns a field with another value. `managers` are their names; `before-first-apply` stands
    for all that wrote to a node before the first apply to it."""

    code = "fields_owned"

    def __init__(self, message: str, managers: frozenset[str]) -> None:
        super().__init__(message)
        self.managers = managers


class BudgetRefused(Unavailable):
    """A PodDisruptionBudget allows no eviction now (429). `retry_after_seconds` is what the server proposes."""

    code = "disruption_budget"

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class WatchChange(StrEnum):
    """What a watch says about an object."""

    UPSERTED = "upserted"
    """Added or modified: the difference depends on what the reader has, not on the server."""
    DELETED = "deleted"
    BOOKMARK = "bookmark"
    """Nothing changed up to this version."""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change, and the version from which to resume after it. `item` is None in a bookmark; of a deleted object it is
    the last state."""

    change: WatchChange
    version: str
    item: T | None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. All pages are of one `version`; `next_page` is empty in the last one."""

    items: Sequence[T]
    version: str
    next_page: str


class ObjectReader(Protocol):
    """Lists and watches. An implementation may leave out objects by a selector."""

    async def list_page(self, kind: WatchedKind[T], limit: int, page: str = "") -> Page[T]:
        """The next objects of a kind in all namespaces, at most `limit`. Raises VersionExpired if the list took too
        long between two pages, and KindNotServed."""
        ...

    def watch(self, kind: WatchedKind[T], version: str) -> AsyncIterator[WatchEvent[T]]:
        """First a bookmark of `version`: the server has answered. Then every change after it, in order. Ends when the
        server ends it, which it does every few minutes.

        Raises VersionExpired, also in the middle, and KindNotServed."""
        ...


class ApiServer(ObjectReader, Protocol):
    """Besides reading: applies to the status of nodes, taints nodes, evicts pods, applies objects and their status, and
    writes Secrets."""

    @property
    def missing_rights(self) -> Sequence[str]:
        """Rights whose use was refused last, as RightMissing names them."""
        ...

    async def review_rights(self) -> None:
        """Ask for each missing right whether it is granted again: what is granted may not be used for a long time."""
        ...

    @property
    def clock_skew_seconds(self) -> float | None:
        """How far the server's clock is ahead of this process', to about a second; None if it is not known yet."""
        ...

    async def apply_lent(self, node: ClusterNode, amounts: Mapping[str, int], *, force: bool) -> ClusterNode:
        """Make `amounts` all that is Slackwater's in capacity and allocatable of the node's status; returns the node
        after that. Of the names in `node.owned` those not in `amounts` are removed by name, and nothing else with them.

        Raises NotFound, Conflict if the node is another one or was written since it was read, and FieldsOwned for a
        field of another manager with another value, unless `force`.
        """
        ...

    async def set_cordon(self, node: ClusterNode, cordon: Taint | None) -> ClusterNode:
        """Make `cordon` the only taint of a node with the key CORDON_TAINT (None: none); returns the node after that.
        Taints of others and `spec.unschedulable` stay. Raises NotFound, and Conflict if the node was written since it
        was read."""
        ...

    async def evict_pod(self, pod: str, uid: str, grace_seconds: int, *, dry_run: bool) -> None:
        """Evict the pod `NAMESPACE/NAME` through the Eviction API, which holds disruption budgets: its containers get
        SIGTERM, and SIGKILL after `grace_seconds`. With `dry_run` the server only answers. A pod that is being deleted
        is accepted again.

        Raises NotFound, Conflict if the pod of this name has another uid, and BudgetRefused.
        """
        ...

    async def apply_object(self, kind: WatchedKind[T], key: str, document: Mapping[str, Any]) -> T:
        """Create an object without a namespace, or make these fields all that FIELD_MANAGER has in it, by force.
        Returns it after that. Raises InvalidInput for what the server refuses."""
        ...

    async def apply_status(self, kind: WatchedKind[T], key: str, uid: str, status: Mapping[str, Any]) -> T:
        """Make `status` all that FIELD_MANAGER has in the status of a custom resource; conditions of others stay.
        Returns it after that. Raises NotFound, Conflict for another uid, InvalidInput, and DefinitionOutdated."""
        ...

    async def serves(self, kind: WatchedKind[T]) -> bool:
        """Whether the server has a kind in this version, as its discovery says."""
        ...

    async def read_object(self, kind: WatchedKind[T], key: str) -> T | None:
        """The present state of an object; None: there is none."""
        ...

    async def write_secret(self, secret: SecretRecord, data: Mapping[str, str]) -> SecretRecord:
        """Make `data` all that is in a Secret; returns it after that. Raises NotFound, and Conflict if the Secret was
        written since it was read."""
        ...

    async def delete_object(self, kind: WatchedKind[T], key: str, uid: str) -> None:
        """Delete an object without a namespace. One that is gone is no error. Raises Conflict for another uid."""
        ...
