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


class StatusMeter(Protocol):
    """What operators watch of the writes to node status."""

    def written(self, reason: str, delay_seconds: float | None) -> None:
        """A write was made; how long after its offer, None if there is none."""
        ...

    def refused(self, reason: str) -> None:
        """A write failed: the code of the error."""
        ...

    def waiting(self, nodes: int) -> None:
        """How many nodes wait, because the rate of writes is bounded."""
        ...

    def foreign(self, amounts: int) -> None:
        """How many amounts of offers are left to other managers, which own them."""
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


class EvictionMeter(Protocol):
    """What operators watch of evictions."""

    def called(self, result: str) -> None:
        """The API server answered a call."""
        ...

    def completed(self, outcome: str) -> None:
        """An eviction ended."""
        ...

    def open(self, evictions: int) -> None:
        """How many evictions of this replica have not ended."""
        ...


class EventMeter(Protocol):
    """What operators watch of Kubernetes Events."""

    def event(self, result: str, count: int = 1) -> None:
        """Events were `written`, `counted` (a series), `refused` or `dropped`."""
        ...


class CordonMeter(Protocol):
    """What operators watch of cordons."""

    def written(self, result: str) -> None:
        """A node was `cordoned` (or its cordon renewed) or `uncordoned`."""
        ...

    def refused(self, reason: str) -> None:
        """A write failed: the code of the error."""
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


class DocumentMeter(Protocol):
    """What operators watch of documents from the cluster."""

    def answered(self, kind: str, result: str) -> None:
        """A document was `stored`, `deleted`, `refused`, or could not be sent (`unavailable`)."""
        ...

    def status_written(self, kind: str) -> None:
        """The status of a resource was written."""
        ...

    def status_refused(self, kind: str, reason: str) -> None:
        """A write of a status failed: the code of the error."""
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


class AdmissionMeter(Protocol):
    """What operators watch of the webhook."""

    def reviewed(self, result: str) -> None:
        """A pod was reviewed: `changed`, `unchanged`, or `failed` (it passed as it was)."""
        ...

    def expires_in(self, seconds: float) -> None:
        """Time until the served certificate expires."""
        ...
