"""/v1/colocationstrategies: what operators decide about offers, for the cluster and for pools of nodes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Response
from fastapi import Path as InPath
from pydantic import BaseModel

from slackwater.colocation.edge.strategy_models import OffersTried
from slackwater.colocation.usecases.change_strategies import Change, ChangeStrategies
from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy
from slackwater.colocation.usecases.try_strategies import TryStrategies
from slackwater.model.errors import InvalidInput
from slackwater.runtime.etags import NOT_MODIFIED, IfMatch, IfNoneMatch, etag, matched, unchanged
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller
from slackwater.waterline.changes import FieldChange, changes

Name = Annotated[str, InPath(description="`default` is the cluster's, any other is for the nodes it selects.")]
By = Annotated[Principal, Depends(caller)]
Most = Annotated[
    int, Query(ge=0, le=10_000, description="With dryRun: how many nodes are named, those that change most first.")
]
NAMED = 100
Offers = Annotated[bool, Query(description="With dryRun: false leaves the offers out, which takes no time then.")]


class ColocationStrategies(BaseModel):
    """Every document, the cluster's first."""

    items: list[ColocationStrategy]


class WouldStoreColocationStrategy(BaseModel):
    """What would be stored (null: nothing, it would be deleted), how that differs from what is, and what nodes would
    offer then (null: nobody asked)."""

    document: ColocationStrategy | None
    changes: tuple[FieldChange, ...]
    offers: OffersTried | None


def strategy_router(change: ChangeStrategies, trying: TryStrategies) -> Routes:
    """Documents of the kind ColocationStrategy. The ETag of each is its generation."""
    router = Routes(prefix="/v1/colocationstrategies", tags=["colocation"])
    _reading(router, change)
    _changing(router, change, trying)
    return router


def _reading(router: Routes, change: ChangeStrategies) -> None:
    @router.get(
        "",
        role=Role.VIEWER,
        response_model_exclude_none=True,
        summary="Every ColocationStrategy with who follows it",
    )
    async def list_colocation_strategies() -> ColocationStrategies:
        return ColocationStrategies(items=list(await change.all()))

    @router.get(
        "/{name}",
        role=Role.VIEWER,
        response_model=ColocationStrategy,
        response_model_exclude_none=True,
        responses=NOT_MODIFIED,
        summary="One ColocationStrategy",
    )
    async def read_colocation_strategy(
        name: Name, response: Response, if_none_match: IfNoneMatch = None
    ) -> ColocationStrategy | Response:
        present = await change.read(name)
        if unchanged(if_none_match, etag_of(present)):
            return Response(status_code=304, headers={"etag": etag_of(present)})
        response.headers["etag"] = etag_of(present)
        return present


def _changing(router: Routes, change: ChangeStrategies, trying: TryStrategies) -> None:
    async def tried(done: Change, limit: int, offers: bool) -> WouldStoreColocationStrategy:
        after = {} if done.document is None else done.document.document()
        found = await trying.offers(done.would or change.in_force, limit) if offers else None
        return WouldStoreColocationStrategy(
            document=done.document,
            changes=changes(done.before, after),
            offers=None if found is None else OffersTried.of(found),
        )

    @router.put(
        "/{name}",
        role=Role.OPERATOR,
        summary="Create or replace a ColocationStrategy",
        responses={201: {"model": ColocationStrategy, "description": "It did not exist."}},
    )
    async def put_colocation_strategy(
        name: Name,
        wanted: ColocationStrategy,
        response: Response,
        principal: By,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        limit: Most = NAMED,
        offers: Offers = True,
    ) -> ColocationStrategy | WouldStoreColocationStrategy:
        """Every replica follows it at once, and decides anew for the nodes that it is for. A dry run answers with the
        offers of every node before and after. 412 if If-Match is not the present ETag, 409 if metadata.generation is
        not the present one, 422 for what could not be used, by itself or by one that stands on it."""
        if wanted.metadata.name != name:
            raise InvalidInput(
                f"metadata.name: {wanted.metadata.name!r} is not the name in the path, {name!r}; write the same twice",
                field="metadata.name",
            )
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(await _matched(change, name, if_match))
        done = await change.put(wanted, by=principal.name, dry_run=dry_run)
        if dry_run or done.document is None:
            return await tried(done, limit, offers)
        response.status_code = 201 if done.is_new else 200
        response.headers["etag"] = etag_of(done.document)
        return done.document

    @router.delete("/{name}", role=Role.OPERATOR, summary="Remove the ColocationStrategy of a pool")
    async def delete_colocation_strategy(
        name: Name,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
        limit: Most = NAMED,
        offers: Offers = True,
    ) -> ColocationStrategy | WouldStoreColocationStrategy | dict[str, Any]:
        """Its nodes follow the cluster's, or another that selects them, from then on. The answer is what is gone. 409
        for the cluster's own."""
        generation = 0 if if_match is None else await _matched(change, name, if_match)
        done = await change.delete(name, generation=generation, dry_run=dry_run)
        return await tried(done, limit, offers) if dry_run else dict(done.before)


async def _matched(change: ChangeStrategies, name: str, if_match: str) -> int:
    async def generation() -> int:
        return (await change.read(name)).metadata.generation

    return await matched(generation, if_match)


def etag_of(document: ColocationStrategy) -> str:
    return etag(document.metadata.generation)
