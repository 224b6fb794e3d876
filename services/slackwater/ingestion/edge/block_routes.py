"""Routes /v1/blocks and /v1/nodes/{name}/block: agents that services ignore, with the reason."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from slackwater.ingestion.domain.blocks import LONGEST_REASON, AgentBlock
from slackwater.ingestion.usecases.block_agents import BlockAgents, BlockChange, Precondition
from slackwater.runtime.etags import NOT_MODIFIED, IfMatch, IfNoneMatch, etag, refuse_other, unchanged
from slackwater.runtime.resource_routes import By
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes

Name = Annotated[
    str, Path(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$", description="The node of the agent.")
]
NOTHING = '"0"'
"""The ETag of a node whose agent was never blocked."""


class BlockView(BaseModel):
    """A block in force. The ETag is its generation."""

    node: str
    blocked: bool
    reason: str
    changed_by: str
    since: datetime = Field(description="When it was blocked or unblocked.")
    generation: int


class BlockList(BaseModel):
    """Every block in force, by node."""

    items: list[BlockView]


class WantedBlock(BaseModel):
    """Why the agent is blocked."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=LONGEST_REASON, description="One line; shown wherever the block is.")


class BlockAnswer(BlockView):
    """The block after the change, or with `dryRun` as it would be. `is_node_known` is false for a node that has never
    described itself or reported, which may be a misspelt name.
    """

    is_node_known: bool
    dry_run: bool
    message: str


def block_router(blocks: BlockAgents) -> Routes:
    """Builds the routes: reads for viewers, changes for admins. Does no I/O."""
    router = Routes(prefix="/v1", tags=["agents"])
    _add_reads(router, blocks)
    _add_changes(router, blocks)
    return router


def _add_reads(router: Routes, blocks: BlockAgents) -> None:
    @router.get("/blocks", role=Role.VIEWER, summary="Every agent that is blocked, with reason")
    async def list_blocks() -> BlockList:
        return BlockList(items=[BlockView(**_fields(block)) for block in await blocks.in_force()])

    @router.get(
        "/nodes/{name}/block",
        role=Role.VIEWER,
        response_model=BlockView,
        responses=NOT_MODIFIED,
        summary="The block of a node's agent",
    )
    async def get_block(name: Name, response: Response, if_none_match: IfNoneMatch = None) -> BlockView | Response:
        """404 (`block_not_found`) if the agent is not blocked."""
        block = await blocks.read(name)
        tag = etag(block.generation)
        if unchanged(if_none_match, tag):
            return Response(status_code=304, headers={"etag": tag})
        response.headers["etag"] = tag
        return BlockView(**_fields(block))


def _add_changes(router: Routes, blocks: BlockAgents) -> None:
    @router.put("/nodes/{name}/block", role=Role.ADMIN, summary="Block the agent of a node")
    async def block_agent(
        name: Name,
        wanted: WantedBlock,
        response: Response,
        principal: By,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> BlockAnswer:
        """Services ignore the agent's messages at once; a broker with accounts of agents ends its connections. 412 if
        If-Match is not the present ETag.
        """
        change = await blocks.block(
            name, wanted.reason, principal.name, precondition=_matching(if_match), dry_run=dry_run
        )
        return _answer(change, response, dry_run=dry_run)

    @router.delete("/nodes/{name}/block", role=Role.ADMIN, summary="Unblock the agent of a node")
    async def unblock_agent(
        name: Name, response: Response, principal: By, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> BlockAnswer:
        """Services accept the agent's messages from now on. 404 (`block_not_found`) if it is not blocked, 412 if
        If-Match is not the present ETag.
        """
        change = await blocks.unblock(name, principal.name, precondition=_matching(if_match), dry_run=dry_run)
        return _answer(change, response, dry_run=dry_run)


def _matching(if_match: str | None) -> Precondition:
    return lambda present: refuse_other(if_match, NOTHING if present is None else etag(present.generation))


def _fields(block: AgentBlock) -> dict[str, object]:
    return {name: getattr(block, name) for name in BlockView.model_fields}


def _answer(done: BlockChange, response: Response, *, dry_run: bool) -> BlockAnswer:
    if not dry_run:
        response.headers["etag"] = etag(done.block.generation)
    return BlockAnswer(
        **_fields(done.block),
        is_node_known=done.is_node_known,
        dry_run=dry_run,
        message=_summary(done, dry_run=dry_run),
    )


def _summary(done: BlockChange, *, dry_run: bool) -> str:
    node, verb = done.block.node, "blocked" if done.block.blocked else "unblocked"
    if not done.is_changed:
        return f"the agent of {node} is already {verb} for this reason"
    tense = f"would be {verb}" if dry_run else f"is {verb}"
    unknown = "" if done.is_node_known else "; no node of this name is known"
    return f"the agent of {node} {tense}{unknown}"
