"""REST of the dead letters: list, read, replay."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.console.domain.dead_letter_views import LetterView, ReplayAnswer
from slackwater.console.ports import ReadModel
from slackwater.console.usecases.dead_letters import existing_letter, letters_page, replay_letter
from slackwater.model.time import Clock
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller

Position = Annotated[int, Path(ge=1, lt=2**63, description="The letter's position, as the list shows it.")]
LARGEST = 2**63 - 1


class LetterPage(BaseModel):
    """One page, newest first. `next_cursor` is null on the last page."""

    items: list[LetterView]
    next_cursor: str | None = Field(description="Pass this as `cursor` to get the next page.")


def deadletters_router(model: ReadModel, desk: BrokerAdmin, clock: Clock) -> Routes:
    """The routes. Building them does no I/O."""
    router = Routes(prefix="/v1/deadletters", tags=["dead letters"])

    @router.get("", role=Role.VIEWER, summary="Dead letters, newest first")
    async def list_dead_letters(
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
        cursor: Annotated[
            int | None, Query(ge=1, le=LARGEST, description="`next_cursor` of the previous page.")
        ] = None,
    ) -> LetterPage:
        items, behind = await letters_page(model, desk, cursor, limit)
        return LetterPage(items=list(items), next_cursor=str(behind) if behind else None)

    @router.get("/{id}", role=Role.VIEWER, summary="A dead letter with its payload")
    async def get_dead_letter(id: Position) -> LetterView:  # noqa: A002 - the path parameter is called id
        return await existing_letter(model, desk, id)

    @router.post("/{id}/replay", role=Role.OPERATOR, summary="Publish a dead letter again to its original subject")
    async def replay_dead_letter(
        id: Position,  # noqa: A002 - the path parameter is called id
        by: Annotated[Principal, Depends(caller)],
        dry_run: DryRun = False,
        again: Annotated[bool, Query(description="Replay it even if it was replayed before.")] = False,
    ) -> ReplayAnswer:
        return await replay_letter(model, desk, id, by=by.name, now=clock.now(), again=again, dry_run=dry_run)

    return router
