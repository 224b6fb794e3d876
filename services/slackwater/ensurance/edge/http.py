"""GET and PUT /v1/nodeqos/default."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, HTTPException, Query, Response

from slackwater.ensurance.usecases.change_policy import ChangePolicy
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes
from slackwater.waterline.nodeqos import NodeQos


def nodeqos_router(change: ChangePolicy) -> Routes:
    """The one NodeQOS document. Its ETag is its generation."""
    router = Routes(prefix="/v1/nodeqos", tags=["nodeqos"])

    @router.get("/default", role=Role.VIEWER)
    async def read_nodeqos(response: Response) -> NodeQos:
        """The document in force."""
        present = await change.read()
        response.headers["etag"] = etag_of(present)
        return present

    @router.put("/default", role=Role.OPERATOR)
    async def replace_nodeqos(
        wanted: NodeQos,
        response: Response,
        if_match: Annotated[str | None, Header(description='the ETag that was read, e.g. "3"')] = None,
        dry_run: Annotated[bool, Query(alias="dryRun", description="validate and show, store nothing")] = False,
    ) -> NodeQos:
        """Replace it. 412 if If-Match is not the present ETag, 409 if metadata.generation is not the present one."""
        present = await change.read()
        if if_match is not None and if_match.strip() not in ("*", etag_of(present)):
            raise HTTPException(412, f"If-Match: {if_match} was read, {etag_of(present)} is stored; read it again")
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(present.metadata.generation)
        stored = await change(wanted, dry_run=dry_run)
        response.headers["etag"] = etag_of(stored)
        return stored

    return router


def etag_of(document: NodeQos) -> str:
    return f'"{document.metadata.generation}"'
