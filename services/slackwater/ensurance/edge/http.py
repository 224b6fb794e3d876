"""GET and PUT /v1/nodeqos/default."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response
from pydantic import BaseModel

from slackwater.ensurance.usecases.change_policy import ChangePolicy
from slackwater.runtime.etags import NOT_MODIFIED, IfMatch, IfNoneMatch, etag, refuse_other, unchanged
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller
from slackwater.waterline.changes import FieldChange, changes
from slackwater.waterline.nodeqos import NodeQos


class WouldStore(BaseModel):
    """What would be stored, and how that differs from what is."""

    document: NodeQos
    changes: tuple[FieldChange, ...]


def nodeqos_router(change: ChangePolicy) -> Routes:
    """The NodeQOS of the whole cluster. Its ETag is its generation."""
    router = Routes(prefix="/v1/nodeqos", tags=["nodeqos"])

    @router.get(
        "/default", role=Role.VIEWER, response_model=NodeQos, response_model_exclude_none=True, responses=NOT_MODIFIED
    )
    async def read_nodeqos(response: Response, if_none_match: IfNoneMatch = None) -> NodeQos | Response:
        """The document in force."""
        present = await change.read()
        if unchanged(if_none_match, etag_of(present)):
            return Response(status_code=304, headers={"etag": etag_of(present)})
        response.headers["etag"] = etag_of(present)
        return present

    @router.put("/default", role=Role.OPERATOR, response_model_exclude_none=True)
    async def replace_nodeqos(
        wanted: NodeQos,
        response: Response,
        principal: Annotated[Principal, Depends(caller)],
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> NodeQos | WouldStore:
        """Replace it. 412 if If-Match is not the present ETag, 409 if metadata.generation is not the present one."""
        present = await change.read()
        refuse_other(if_match, etag_of(present))
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(present.metadata.generation)
        stored = await change(wanted, by=principal.name, dry_run=dry_run)
        if dry_run:
            return WouldStore(document=stored, changes=changes(present.document(), stored.document()))
        response.headers["etag"] = etag_of(stored)
        return stored

    return router


def etag_of(document: NodeQos) -> str:
    return etag(document.metadata.generation)
