"""REST routes of a service's quarantine: list and release its items. Every service that keeps state
mounts them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from slackwater.events.state_quarantined import QuarantineReason
from slackwater.model.errors import NotFound
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.service import Check

if TYPE_CHECKING:  # an agent has no quarantine and must not load SQLAlchemy
    from slackwater.store.quarantine import Item, Quarantine

MOST_NAMED = 5
ItemId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The item's id, as the list shows it.")]


class QuarantineItem(BaseModel):
    """A row or node in quarantine. `document` is the row's content, as far as it was stored."""

    id: str
    service: str
    table: str
    row: str
    node: str = Field(description="The node it belongs to; empty: none.")
    reason: QuarantineReason
    detail: str
    document: str
    since: datetime
    failed_at: datetime = Field(description="When it failed last.")
    count: int = Field(description="How often it has failed.")


class QuarantineList(BaseModel):
    """All items, the oldest first; a service keeps 1,000 at most."""

    items: list[QuarantineItem]


class ReleaseAnswer(BaseModel):
    """`released` is false in a dry run. An item that still fails returns under the same id."""

    item: QuarantineItem
    released: bool
    message: str


def quarantine_router(quarantine: Quarantine) -> Routes:
    """Returns the routes of `/v1/quarantine/SERVICE`. Building them does no I/O."""
    service = quarantine.service
    router = Routes(prefix=f"/v1/quarantine/{service}", tags=["quarantine"])

    @router.get(
        "",
        role=Role.VIEWER,
        summary=f"What {service} has set aside, the oldest first",
        operation_id=f"list_quarantine_of_{service}",
    )
    async def list_quarantine() -> QuarantineList:
        return QuarantineList(items=[_shown(item) for item in await quarantine.items()])

    @router.post(
        "/{id}/release",
        role=Role.OPERATOR,
        summary=f"Have {service} try an item again",
        operation_id=f"release_quarantine_of_{service}",
    )
    async def release_item(id: ItemId, dry_run: DryRun = False) -> ReleaseAnswer:  # noqa: A002 - its name in the path
        if dry_run:
            item = await _existing(quarantine, id)
            return ReleaseAnswer(item=_shown(item), released=False, message=f"would try {item.table}/{item.row} again")
        item = await quarantine.release(id)
        return ReleaseAnswer(item=_shown(item), released=True, message=f"{item.table}/{item.row} is tried again")

    return router


def quarantine_check(quarantine: Quarantine) -> Check:
    """Returns the health check, which lists the items; a quarantine does not affect readiness."""
    rows = sorted(f"{item.table}/{item.row}" for item in quarantine.known())
    named = ", ".join(rows[:MOST_NAMED]) + (f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else "")
    return Check(f"{quarantine.service}-quarantine", True, f"{len(rows)} set aside: {named}" if rows else "empty")


async def _existing(quarantine: Quarantine, item_id: str) -> Item:
    existing = next((item for item in await quarantine.items() if item.id == item_id), None)
    if existing is None:
        raise NotFound(
            f"quarantine item {item_id} is not kept (any more)", code="quarantine_item_not_found", field="id"
        )
    return existing


def _shown(item: Item) -> QuarantineItem:
    return QuarantineItem(
        id=item.id,
        service=item.service,
        table=item.table,
        row=item.row,
        node=item.node,
        reason=item.reason,
        detail=item.detail,
        document=item.document,
        since=item.since,
        failed_at=item.failed_at,
        count=item.count,
    )
