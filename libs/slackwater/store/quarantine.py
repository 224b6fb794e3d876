"""Isolates a row or node that cannot be read, stored or computed, until it is released: by an operator,
or by the next process that owns it, which tries it once.

A use case or adapter calls `note` for the failing row or node and continues with the others; from
then on `holds` returns True. `run` stores the item, publishes it and applies its consequences (an
offer is withdrawn) separately. A failure within a transaction therefore causes no second one, and
an outage loses only the note, which the next failure renews.

An item that failed in another process is retried once by each process that owns its row (`retry_inherited`),
because a restart, an upgrade or a move to another replica may have removed the cause. What failed in this
process is not retried by it: the same code on the same state fails again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from slackwater.events.state_quarantined import QuarantineReason, StateQuarantined
from slackwater.model.errors import Conflict, Fenced, InvalidInput, Misconfigured, NotFound, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock, SystemClock
from slackwater.store.quarantine_metrics import QuarantineMetrics
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

log = get_logger(__name__)

MOST_ITEMS: Final = 1000
"""Items stored per service. Failures beyond are isolated too, but not stored."""
DETAIL_CHARACTERS, ROW_CHARACTERS, DOCUMENT_CHARACTERS = 500, 200, 4000
_REPEAT: Final = timedelta(seconds=10)
"""Minimum interval between two stored repeats of one item."""
_ROWS_LOGGED: Final = 5
_LOOK_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 1.0
OF_NO_ROW: Final = (Unavailable, Conflict, Misconfigured, MemoryError)
"""Failures unrelated to the row or node in hand: outages, lost races and leases, the machine."""


class Unreadable(InvalidInput):
    """A row that exists and cannot be read; it is in the quarantine."""

    code = "unreadable"


@dataclass(frozen=True, slots=True)
class Item:
    """A row or node in quarantine. `document` is the row's content, as far as it can be stored."""

    service: str
    table: str
    row: str
    node: str
    reason: QuarantineReason
    detail: str
    document: str
    since: datetime
    failed_at: datetime
    count: int = 1

    @property
    def id(self) -> str:
        """Returns 16 hexadecimal digits, the same for every failure of the same row."""
        return hashlib.sha256(f"{self.service}\0{self.table}\0{self.row}".encode()).hexdigest()[:16]


class QuarantineStore(Protocol):
    """Storage of one service's items. Raises Unavailable while the store does not answer."""

    async def items(self) -> Sequence[Item]:
        """Returns all items, the oldest first."""
        ...

    async def put(self, item: Item) -> bool:
        """Store an item and publish its event; for an existing item the count grows by
        `item.count`. Returns False at the limit.
        """
        ...

    async def remove(self, item_id: str, now: datetime) -> Item | None:
        """Remove an item and publish its release; None for an unknown id."""
        ...


T = TypeVar("T")
Hook = Callable[[Item], Awaitable[None]]


class Quarantine:
    """The quarantine of one service in one process. `holds` and `note` answer from memory."""

    def __init__(self, service: str, store: QuarantineStore, clock: Clock | None = None) -> None:
        self.service = service
        self._store = store
        self._clock = clock or SystemClock()
        self._metrics = QuarantineMetrics(process_meters())
        self._items: dict[str, Item] = {}
        self._waiting: dict[str, Item] = {}
        self._nodes: dict[str, int] = {}
        self._unkept: set[str] = set()
        """Items isolated but not stored, because the limit was reached."""
        self._noted: set[str] = set()
        """Items of documents that this replica could not read."""
        self._tried: set[str] = set()
        """Items that failed or were retried in this process."""
        self._owns: Callable[[Item], bool] = lambda item: False
        self._to_hold: dict[str, Item] = {}
        self._to_release: dict[str, Item] = {}
        self._on_hold: list[Hook] = []
        self._on_release: list[Hook] = []
        self._tables: set[str] = set()
        self._wake = asyncio.Event()

    def holds(self, table: str, row: str) -> bool:
        """Returns whether this row is in quarantine."""
        return bool(self._items) and self._key(table, row) in self._items

    def left_out(self, event_type: str, count: int = 1) -> None:
        """Count events that changed nothing because a part of their node's state is in quarantine."""
        self._metrics.left_out.labels(self.service, event_type).inc(count)

    def holds_node(self, node: str) -> bool:
        """Returns whether a part of this node's state is in quarantine; then no decision is made
        about the node.
        """
        return node in self._nodes

    @property
    def nodes(self) -> Collection[str]:
        """Returns the nodes in quarantine."""
        return self._nodes.keys()

    def note(
        self,
        table: str,
        row: str,
        error: BaseException | str,
        *,
        reason: QuarantineReason | None = None,
        node: str = "",
        document: object = "",
    ) -> None:
        """Quarantine this row. A repeated note increments its count."""
        now = self._clock.now()
        item = Item(
            self.service,
            table,
            readable(row, ROW_CHARACTERS),
            readable(node, ROW_CHARACTERS),
            reason or reason_of(error),
            readable(described(error), DETAIL_CHARACTERS),
            readable(document, DOCUMENT_CHARACTERS),
            now,
            now,
        )
        self._tried.add(item.id)
        known, waiting = self._items.get(item.id), self._waiting.get(item.id)
        if known is None:
            log.error("state is quarantined", service=self.service, table=table, row=item.row, reason=item.detail)
            self._hold(item)
        if waiting is not None:
            item = replace(item, since=waiting.since, count=waiting.count + 1)
        self._waiting[item.id] = item
        if known is None or now - known.failed_at >= _REPEAT:
            self._wake.set()

    @contextmanager
    def isolating(self, table: str, row: str, *, node: str = "") -> Iterator[None]:
        """Quarantines the row on any exception within, which ends here; outages and lost leases
        pass through.
        """
        try:
            yield
        except OF_NO_ROW:
            raise
        except Exception as error:
            log.exception("a row or node fails", service=self.service, table=table, row=row)
            self.note(table, row, error, node=node)

    def attempt(self, table: str, row: str, work: Callable[[], T], *, node: str = "") -> T | None:
        """Returns the result of `work`; None where it fails, which quarantines the row."""
        results: list[T] = []
        with self.isolating(table, row, node=node):
            results.append(work())
        return results[0] if results else None

    def follow(self, table: str, problems: Mapping[str, str]) -> None:
        """Set the unreadable documents of a table, each with its reason. A document that this
        replica could not read and now can is released automatically; a replica of another version
        may read documents that others cannot.
        """
        for row, why in problems.items():
            self._noted.add(self._key(table, row))
            if not self.holds(table, row):
                self.note(table, row, why, reason=QuarantineReason.UNREADABLE)
        for item in list(self._items.values()):
            if item.table == table and item.row not in problems and item.id in self._noted:
                self._noted.discard(item.id)
                self._to_release[item.id] = item
                self._wake.set()

    def on_hold(self, hook: Hook) -> None:
        """Register a hook for each item that becomes known here, retried until it succeeds. It
        raises Fenced where another replica owns the item.
        """
        self._on_hold.append(hook)

    def on_release(self, hook: Hook) -> None:
        """Register a hook for each released item."""
        self._on_release.append(hook)

    def retry_inherited(self, owns: Callable[[Item], bool]) -> None:
        """Release each item that failed in another process once, as soon as `owns` is True for it. What
        still fails is noted again and then stays.
        """
        self._owns = owns

    def notify(self) -> None:
        """Signal that another replica may have changed an item, or that this one owns more rows."""
        self._wake.set()

    async def load(self) -> None:
        """Load the stored items. Raises Unavailable."""
        stored = {item.id: item for item in await self._store.items()}
        learned = [item for item in stored.values() if item.id not in self._items]
        if learned:
            rows = [f"{item.table}/{item.row}" for item in learned[:_ROWS_LOGGED]]
            log.warning("state is in quarantine", service=self.service, items=len(learned), rows=rows)
        for item in learned:
            self._hold(item)
        self._items |= stored
        kept = stored.keys() | self._waiting.keys() | self._unkept
        for item in [item for item_id, item in self._items.items() if item_id not in kept]:
            await self._let_go(item)
        self._show()

    async def run(self) -> None:
        """Work until cancelled, through outages."""
        while True:
            seconds = _LOOK_SECONDS
            try:
                await self.work()
            except (Unavailable, Conflict) as error:
                log.warning("the quarantine is written later", service=self.service, reason=error.message)
                seconds = _PAUSE_SECONDS
            if self._to_hold:
                seconds = _PAUSE_SECONDS
            await self._rest(seconds)

    async def work(self) -> None:
        """Store new notes, load other replicas' changes, retry what failed elsewhere, and run the hooks.
        Raises Unavailable, Conflict.
        """
        self._wake.clear()
        for item_id, item in list(self._waiting.items()):
            if not await self._store.put(item):
                self._unkept.add(item_id)
            if self._waiting.get(item_id) is item:
                self._waiting.pop(item_id)
        for item_id in list(self._to_release):
            await self._store.remove(item_id, self._clock.now())
            self._to_release.pop(item_id, None)
        await self.load()
        await self._retry()
        for item in list(self._to_hold.values()):
            try:
                for hook in self._on_hold:
                    await hook(item)
            except Fenced:
                pass  # the owner of its partition knows it too, and does it
            except (Unavailable, Conflict) as error:
                log.warning("what follows from a quarantine waits", item=item.id, reason=error.message)
                continue
            self._to_hold.pop(item.id, None)

    def known(self) -> Sequence[Item]:
        """Returns the items known to this process."""
        return list(self._items.values())

    async def items(self) -> Sequence[Item]:
        """Returns the stored items. Raises Unavailable."""
        return await self._store.items()

    async def release(self, item_id: str) -> Item:
        """Release an item for another try; it returns if it still fails. Raises NotFound,
        Unavailable.
        """
        item = await self._store.remove(item_id, self._clock.now())
        if item is None:
            raise NotFound(
                f"quarantine item {item_id} is not kept (any more)", code="quarantine_item_not_found", field="id"
            )
        self._waiting.pop(item_id, None)
        await self._let_go(self._items.get(item_id, item))
        self._show()
        return item

    async def _retry(self) -> None:
        for item in [item for item in self._items.values() if item.id not in self._tried and self._owns(item)]:
            log.info("state is retried", service=self.service, table=item.table, row=item.row, reason=item.detail)
            with suppress(NotFound):  # released by another process meanwhile
                await self.release(item.id)
            self._tried.add(item.id)

    def _hold(self, item: Item) -> None:
        self._items[item.id] = self._to_hold[item.id] = item
        if item.node:
            self._nodes[item.node] = self._nodes.get(item.node, 0) + 1

    async def _let_go(self, item: Item) -> None:
        if self._items.pop(item.id, None) is not None and item.node:
            self._nodes[item.node] -= 1
            if not self._nodes[item.node]:
                del self._nodes[item.node]
        self._to_hold.pop(item.id, None)
        with self.isolating(item.table, item.row, node=item.node):  # it comes back, and nothing else ends
            for hook in self._on_release:
                await hook(item)

    def _show(self) -> None:
        """Update the gauge of rows by table; a table that once had items then shows 0."""
        self._tables |= {item.table for item in self._items.values()} | {"nodes"}
        for table in self._tables:
            count = sum(item.table == table for item in self._items.values())
            self._metrics.items.labels(self.service, table).set(count)

    def _key(self, table: str, row: str) -> str:
        cut = readable(row, ROW_CHARACTERS)
        return hashlib.sha256(f"{self.service}\0{table}\0{cut}".encode()).hexdigest()[:16]

    async def _rest(self, seconds: float) -> None:
        timer = asyncio.create_task(self._clock.sleep(seconds))
        woken = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait((timer, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (timer, woken):
                task.cancel()
            await asyncio.gather(timer, woken, return_exceptions=True)


def partition_of_node(item: Item) -> int | None:
    """Returns the partition of an item's node; None for an item of no node."""
    return partition_of(item.node) if item.node else None


def quarantine_event(item: Item, now: datetime, *, released: bool) -> StateQuarantined:
    """Returns the event about an item."""
    return StateQuarantined(
        service=item.service,
        id=item.id,
        table=item.table,
        row=item.row,
        node=item.node,
        reason=item.reason,
        detail=item.detail,
        since=item.since,
        count=item.count,
        released=released,
        told_at=now,
    )


def reason_of(error: BaseException | str) -> QuarantineReason:
    """Returns the reason code of a failure."""
    if isinstance(error, Unreadable):
        return QuarantineReason.UNREADABLE
    if isinstance(error, InvalidInput) and error.code == "unstorable":
        return QuarantineReason.UNSTORABLE
    return QuarantineReason.UNCOMPUTABLE


def described(error: BaseException | str) -> str:
    """Returns one line: the type of a defect, and its message."""
    if isinstance(error, str):
        return error
    text = str(error)
    return text if isinstance(error, InvalidInput) else f"{type(error).__name__}: {text}"


def readable(value: object, most: int) -> str:
    """Returns the value as text that PostgreSQL and JSON can hold, truncated."""
    whole = value if isinstance(value, str) else "" if value is None else str(value)
    return whole[:most].replace("\0", "\\0").encode(errors="backslashreplace").decode()[: 2 * most]
