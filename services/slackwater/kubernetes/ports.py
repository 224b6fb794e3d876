"""What the use cases need beside the API server: recorded decisions, and meters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event
from slackwater.kubernetes.domain.document_plan import LedgerEntry
from slackwater.kubernetes.domain.eviction_plan import TrackedEviction
from slackwater.kubernetes.domain.webhook_certificates import CertificatePair
from slackwater.resources.kind import Kind


class DecisionStore(Protocol):
    """Keeps decisions before they are carried out."""

    async def record(self, records: Sequence[DecisionRecord]) -> None:
        """Store the records in one transaction. Raises Unavailable, and Fenced if a node's partition is not held:
        then nothing is stored, and nothing must be written."""
        ...


@dataclass(frozen=True, slots=True)
class StoredEvictions:
    """The evictions of one node, as stored. `version` counts writes of the row (0: not stored)."""

    node: str
    version: int = 0
    evictions: tuple[TrackedEviction, ...] = ()


class EvictionStore(Protocol):
    """Keeps evictions before they are called, and publishes their completions in the same transaction."""

    async def load(self, partitions: Collection[int]) -> Sequence[StoredEvictions]:
        """The rows of these partitions. Raises Unavailable."""
        ...

    async def save(self, rows: Sequence[StoredEvictions], events: Sequence[Event[Any]]) -> Sequence[StoredEvictions]:
        """Write rows over the versions that were read, and publish; returns them with their new versions. Raises
        Unavailable, Conflict if another replica wrote one, and Fenced if a node's partition is not held: then nothing
        is stored."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as its service has it. `status` is what its kind declares beside the conditions; `warning` says why it
    is not in force yet although it is stored, `notice` what its author is to know of it."""

    name: str
    generation: int
    author: str
    status: Mapping[str, Any]
    warning: str = ""
    notice: str = ""


class DocumentApi(Protocol):
    """The resources of the services, as their REST API serves them.

    Besides the errors below, methods raise Unavailable, and Misconfigured if the token is refused or its role does not
    suffice.
    """

    async def read_all(self, kind: Kind) -> Sequence[StoredDocument]:
        """Every document of a kind."""
        ...

    async def put(self, kind: Kind, name: str, spec: Any) -> StoredDocument:
        """Create or replace a document; an equal one stays. Raises InvalidInput for what cannot be used, Conflict for a
        value that must be unique."""
        ...

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete a document. One that is always there becomes what the service's settings make. Raises NotFound,
        InvalidInput if others could not be used without it, and Conflict while it is in use."""
        ...


class DocumentLedger(Protocol):
    """Keeps what was answered about which generation. Raises Unavailable."""

    async def load(self) -> Sequence[LedgerEntry]:
        """Every entry that can be read."""
        ...

    async def write(self, entry: LedgerEntry) -> None:
        """Insert or overwrite an entry."""
        ...

    async def remove(self, key: str) -> None:
        """Delete an entry. A missing one is no error."""
        ...


class PairIssuer(Protocol):
    """Makes certificates of the webhook."""

    async def issue(self, hosts: Sequence[str], issued_at: datetime, lifetime: timedelta) -> CertificatePair:
        """A new pair for these host names. Raises Misconfigured if it cannot be made."""
        ...


class WebhookListener(Protocol):
    """Serves the webhook."""

    async def use(self, certificate: str, key: str) -> None:
        """Serve this certificate from now on; the first call begins to listen. Raises Misconfigured if it cannot be
        used, or the address is taken."""
        ...
