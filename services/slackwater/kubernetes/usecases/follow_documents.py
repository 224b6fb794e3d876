"""Makes the custom resources of a cluster the documents of the services, and writes their status back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from slackwater.apiserver.objects import ObjectRecord
from slackwater.apiserver.port import ApiServer, WatchChange, WatchEvent
from slackwater.kubernetes.domain.document_plan import (
    DocumentFacts,
    FollowStatus,
    FollowVerdict,
    LedgerEntry,
    is_written,
    plan_documents,
    status_of,
)
from slackwater.kubernetes.metrics import DocumentMetrics
from slackwater.kubernetes.ports import DocumentApi, DocumentLedger, StoredDocument
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, ResourcesRead
from slackwater.model.errors import Conflict, InvalidInput, NotFound, SlackwaterError
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

PARTITION: Final = partition_of("documents")
"""The replica that holds it follows the documents of all kinds, because one kind may refer to another."""
GATHER_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
COMPARE_SECONDS: Final = 60.0
"""How often the services' documents are read: for their status, and for changes that came another way."""
STORED: Final = FollowVerdict(FollowStatus.TRUE, "Followed", "")


class FollowDocuments:
    """The documents of all kinds. `changed` is set whenever planning may have a new result; `hindered` says why what a
    document wants is not in force although it is stored, `noted` where one has another effect than it says.
    """

    def __init__(
        self,
        server: ApiServer,
        resources: ResourcesRead,
        documents: DocumentApi,
        ledger: DocumentLedger,
        clock: Clock,
        meter: DocumentMetrics,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        hindered: Callable[[str], str] = lambda _: "",
        noted: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._server = server
        self._resources = resources
        self._documents = documents
        self._ledger = ledger
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._changed = changed
        self._hindered = hindered
        self._noted = noted
        self._entries: dict[str, LedgerEntry] | None = None
        """None: another replica follows the documents."""
        self._stored: dict[str, StoredDocument] = {}
        self._compared: dict[str, datetime] = {}
        """When to read the documents of a kind again."""
        self._read: set[str] = set()
        self._waits: dict[str, datetime] = {}
        self._moved: set[str] = set()
        """Kinds of which a document was stored or deleted in this round."""
        self._failures: dict[str, int] = {}
        self._written: dict[str, tuple[Mapping[str, Any], str]] = {}
        self.refusals: dict[str, str] = {}
        """Why a document is not followed, by `PLURAL/NAME`."""
        self.unwritten: dict[str, str] = {}
        """Why the status of a kind's resources was not written last, by plural."""

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            try:
                again_at = await self.follow()
            except (SlackwaterError, OSError) as error:  # PostgreSQL is away
                log.warning("documents not followed", reason=str(error))
                again_at = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            await until_due(self._clock, self._changed, again_at)

    async def follow(self) -> datetime | None:
        """Do what is due now; returns when to look again without news. Raises Unavailable if the ledger cannot be read
        or written."""
        if PARTITION not in self._owned():
            self._entries = None
            return None
        if self._entries is None:
            self._entries = {entry.key: entry for entry in await self._ledger.load()}
            self._compared.clear()
            self._read.clear()
        now = self._clock.now()
        for plural in self._plurals():
            if now >= self._compared.get(plural, now):
                await self._compare(plural)
        plan = plan_documents(self._facts(), now)
        for key, error in await _attempted(plan.deletions, self._delete):
            self._wait(key, error, "refused")
        for key, error in await _attempted(plan.changes, self._put):
            await self._note_refused(key, error)
        self._hasten()
        for plural in self._plurals():
            for resource in list(self._resources.items(plural).values()):  # they change while one is written
                await self._write_status(plural, resource)
        times = [*self._compared.values(), *([] if plan.again_at is None else [plan.again_at]), *self._waits.values()]
        return min((at for at in times if at > now), default=None)

    def _plurals(self) -> Iterable[str]:
        """The kinds that were listed."""
        return (plural for plural in DOCUMENT_KINDS if self._resources.is_synced(plural))

    def _facts(self) -> Iterable[DocumentFacts]:
        entries = self._entries or {}
        for plural in self._plurals():
            present = {f"{plural}/{name}": item for name, item in self._resources.items(plural).items()}
            known = {key for key in entries if key.startswith(f"{plural}/")}
            for key in {*present, *known}:
                resource, stored = present.get(key), self._stored.get(key)
                read = plural in self._read
                yield DocumentFacts(
                    key,
                    "" if resource is None else resource.uid,
                    0 if resource is None else resource.generation,
                    entries.get(key),
                    (0 if stored is None else stored.generation) if read else None,
                    self._waits.get(key),
                )

    async def _compare(self, plural: str) -> None:
        """Read the documents of a kind as its service has them."""
        kind, _ = DOCUMENT_KINDS[plural]
        try:
            stored = await self._documents.read_all(kind)
        except SlackwaterError as error:
            log.warning("documents not compared", kind=kind.name, reason=error.message)
            self._compared[plural] = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            return
        self._read.add(plural)
        for key in [key for key in self._stored if key.startswith(f"{plural}/")]:
            del self._stored[key]
        self._stored |= {f"{plural}/{document.name}": document for document in stored}
        self._compared[plural] = self._clock.now() + timedelta(seconds=COMPARE_SECONDS)

    async def _put(self, key: str) -> SlackwaterError | None:
        """Store a document; returns why its service refuses it."""
        plural, _, name = key.partition("/")
        kind, _ = DOCUMENT_KINDS[plural]
        resource = self._resources.items(plural).get(name)
        if resource is None:  # deleted since the plan was made
            return None
        try:
            stored = await self._documents.put(kind, name, resource.read_spec())
        except (InvalidInput, Conflict) as error:
            return error
        except SlackwaterError as error:
            self._wait(key, error, "unavailable")
        else:
            verdict = replace(STORED, message=stored.notice)
            if stored.warning:
                verdict = FollowVerdict(FollowStatus.UNKNOWN, "NotFollowedYet", stored.warning)
            self._stored[key] = stored
            generation = resource.generation
            await self._note(LedgerEntry(key, resource.uid, generation, generation, stored.generation, verdict))
            self._meter.answered(kind.name, "stored")
            if stored.warning:
                self._waits[key] = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            else:
                self._clear_failures(key)
                self._moved.add(plural)
        return None

    async def _note_refused(self, key: str, error: SlackwaterError) -> None:
        """Say so in the status of the resource, and try again later: what it needs or conflicts with may change."""
        plural, _, name = key.partition("/")
        resource = self._resources.items(plural).get(name)
        if resource is None:
            return
        before = self._known.get(key)
        in_force = before.in_force if before is not None and before.uid == resource.uid else 0
        was_stored = before.stored if before is not None else 0
        verdict = FollowVerdict(FollowStatus.FALSE, _reason(error.code), error.message)
        await self._note(LedgerEntry(key, resource.uid, resource.generation, in_force, was_stored, verdict))
        self._wait(key, error, "refused")

    async def _delete(self, key: str) -> SlackwaterError | None:
        """Delete a document; returns why its service keeps it: a quota has children, or claims that have not ended."""
        plural, _, name = key.partition("/")
        kind, _ = DOCUMENT_KINDS[plural]
        try:
            if self._known[key].stored:
                await self._documents.delete(kind, name)
        except NotFound:
            pass
        except (InvalidInput, Conflict) as error:
            return error
        except SlackwaterError as error:
            self._wait(key, error, "unavailable")
            return None
        await self._ledger.remove(key)
        del self._known[key]
        self._stored.pop(key, None)
        self._written.pop(key, None)
        self._clear_failures(key)
        self._moved.add(plural)
        self._meter.answered(kind.name, "deleted")
        return None

    @property
    def _known(self) -> dict[str, LedgerEntry]:
        if self._entries is None:
            self._entries = {}
        return self._entries

    async def _note(self, entry: LedgerEntry) -> None:
        if self._known.get(entry.key) != entry:
            await self._ledger.write(entry)
            self._known[entry.key] = entry

    def _wait(self, key: str, error: SlackwaterError, result: str) -> None:
        failures = self._failures.get(key, 0)
        pause = min(LONGEST_PAUSE_SECONDS, RETRY_SECONDS * float(1 << min(failures, 10)))
        self._failures[key] = failures + 1
        self._waits[key] = self._clock.now() + timedelta(seconds=pause)
        if self.refusals.get(key) != error.message:
            log.warning("document not followed", document=key, reason=error.message)
        self.refusals[key] = error.message
        self._meter.answered(DOCUMENT_KINDS[key.partition("/")[0]][0].name, result)

    def _hasten(self) -> None:
        """Let no document of a kind wait for long of which another one was stored or deleted in this round, before or
        after it was refused itself: its parent may be there now, or its last child gone."""
        soon = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
        for key, until in self._waits.items():
            if key.partition("/")[0] in self._moved:
                self._waits[key] = min(until, soon)
        self._moved.clear()

    def _clear_failures(self, key: str) -> None:
        for notes in (self._failures, self._waits, self.refusals):
            notes.pop(key, None)

    async def _write_status(self, plural: str, resource: ObjectRecord) -> None:
        """Write the status of a resource if it is another one."""
        key = f"{plural}/{resource.key}"
        entry, stored = self._known.get(key), self._stored.get(key)
        verdict, in_force = self._verdict(plural, resource, entry)
        if verdict is None:
            return
        present, now = resource.read_status(), self._clock.now()
        own = stored.status if stored is not None and in_force else {}
        wanted = status_of(resource.generation, in_force, verdict, own, present, now)
        if is_written(present, wanted) or self._written.get(key) == (wanted, resource.status):
            return
        _, watched = DOCUMENT_KINDS[plural]
        try:
            after = await self._server.apply_status(watched, resource.key, resource.uid, wanted)
        except (NotFound, Conflict):  # deleted, or created anew: the watch shows it
            return
        except SlackwaterError as error:
            if self.unwritten.get(plural) != error.message:
                log.warning("status not written", document=key, reason=error.message)
            self.unwritten[plural] = error.message
            self._meter.status_refused(DOCUMENT_KINDS[plural][0].name, error.code)
            self._waits.setdefault(key, now + timedelta(seconds=RETRY_SECONDS))
            return
        self.unwritten.pop(plural, None)
        self._written[key] = wanted, after.status
        self._resources.apply(watched, WatchEvent(WatchChange.UPSERTED, "", after))
        self._meter.status_written(DOCUMENT_KINDS[plural][0].name)

    def _verdict(
        self, plural: str, resource: ObjectRecord, entry: LedgerEntry | None
    ) -> tuple[FollowVerdict | None, int]:
        """What to say about the present generation, and the generation in force. None: nothing is known yet."""
        in_force = entry.in_force if entry is not None and entry.uid == resource.uid else 0
        if entry is not None and (entry.uid, entry.generation) == (resource.uid, resource.generation):
            key = f"{plural}/{resource.key}"
            why = self._hindered(key) if entry.verdict.status is FollowStatus.TRUE else ""
            if why:
                return FollowVerdict(FollowStatus.FALSE, "NotInForce", why), in_force
            note = self._noted(key) if entry.verdict.status is FollowStatus.TRUE else ""
            return (FollowVerdict(FollowStatus.TRUE, "InForceInPart", note) if note else entry.verdict), in_force
        why = self.refusals.get(f"{plural}/{resource.key}", "")
        return (FollowVerdict(FollowStatus.UNKNOWN, "ServiceUnavailable", why) if why else None), in_force


async def _attempted(
    keys: Sequence[str], attempt: Callable[[str], Awaitable[SlackwaterError | None]]
) -> Iterable[tuple[str, SlackwaterError]]:
    """What is refused although all others were attempted: what was refused is attempted again as long as another one
    succeeds, because a quota needs its parent, and is needed by its children."""
    while True:
        refused = {key: error for key in keys if (error := await attempt(key)) is not None}
        if not refused or len(refused) == len(keys):
            return refused.items()
        keys = list(refused)


def _reason(code: str) -> str:
    """A problem code as the reason of a condition: `node_pool_taken` is NodePoolTaken."""
    return "".join(part.capitalize() for part in code.split("_")) or "Refused"
