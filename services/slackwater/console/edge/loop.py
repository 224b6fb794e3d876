"""The pages of the control loop's health and of the dead letters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import HTMLResponse

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.console.edge.parameters import number_of
from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.dead_letters import existing_letter, letters_page
from slackwater.console.usecases.loop_page import loop_page
from slackwater.console.usecases.senders import Senders
from slackwater.model.time import Clock
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import Routes, caller

LETTERS = 25


def loop_router(reads: ReadQueries, desk: BrokerAdmin, clock: Clock, senders: Senders) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/loop", role=Role.VIEWER)
    @pages.errors_as_pages
    async def loop(part: bool = False) -> HTMLResponse:
        view = await loop_page(reads, desk, clock.now())
        return pages("loop_part.html" if part else "loop.html", page=view, worst=await senders.worst())

    @router.get("/deadletters", role=Role.VIEWER)
    @pages.errors_as_pages
    async def letters(by: Annotated[Principal, Depends(caller)], before: str = "") -> HTMLResponse:
        behind_this = number_of(before, "before", 2**63 - 1) if before else None
        items, behind = await letters_page(reads, desk, behind_this, LETTERS)
        return pages(
            "letters.html",
            items=items,
            before=behind_this,
            behind=behind,
            now=clock.now(),
            senders=await senders(),
            may_block=by.role.allows(Role.ADMIN),
        )

    @router.get("/deadletters/{position}", role=Role.VIEWER)
    @pages.errors_as_pages
    async def letter(position: str, part: bool = False) -> HTMLResponse:
        view = await existing_letter(reads, desk, number_of(position, "letter", 2**63 - 1))
        return pages("letter_part.html" if part else "letter.html", letter=view, now=clock.now())

    return router
