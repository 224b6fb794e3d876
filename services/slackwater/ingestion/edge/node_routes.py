"""Route DELETE /v1/nodes/{name}: removes a node that is gone."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from slackwater.ingestion.usecases.delete_nodes import DeleteNodes
from slackwater.runtime.resource_routes import By
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes

Name = Annotated[
    str, Path(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$", description="The node to delete.")
]


class NodeDeletion(BaseModel):
    """The node as it was deleted, or with `dryRun` as it would be."""

    node: str
    deleted_at: datetime
    last_report_at: datetime | None = Field(description="null: it never reported")
    dry_run: bool
    message: str


def node_router(delete: DeleteNodes) -> Routes:
    """Builds the route. Does no I/O."""
    router = Routes(prefix="/v1", tags=["nodes"])

    @router.delete("/nodes/{name}", role=Role.OPERATOR, summary="Delete a node that is gone")
    async def delete_node(name: Name, principal: By, dry_run: DryRun = False) -> NodeDeletion:
        """Services drop the node, its offers and its alerts; its records are kept, and a report brings it back. 404
        (`node_not_found`) if it is not known, 409 (`node_reports`) unless it is lost or has never reported.
        """
        done = await delete(name, principal.name, dry_run=dry_run)
        verb = "would be deleted" if dry_run else "deleted"
        return NodeDeletion(
            node=done.node,
            deleted_at=done.deleted_at,
            last_report_at=done.last_report_at,
            dry_run=dry_run,
            message=f"node/{done.node} {verb}",
        )

    return router
