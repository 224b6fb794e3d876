"""/v1/colocationstrategies: what operators decide about offers, for the cluster and for pools of nodes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from slackwater.colocation.edge.strategy_models import OffersTried
from slackwater.colocation.usecases.change_strategies import Change, ChangeStrategies
from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy
from slackwater.colocation.usecases.try_strategies import TryStrategies
from slackwater.runtime.document_routes import By, Name, Reading, answer, reading_routes, refuse_other_name
from slackwater.runtime.etags import IfMatch
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.waterline.changes import FieldChange, changes

Most = Annotated[
    int, Query(ge=0, le=10_000, description="With dryRun: how many nodes are named, those that change most first.")
]
NAMED = 100
Offers = Annotated[bool, Query(description="With dryRun: false leaves the offers out, which takes no time then.")]


class ColocationStrategies(BaseModel):
    """Every document, the cluster's first."""

    items: list[ColocationStrategy]


class WantedColocationStrategies(BaseModel):
    """Documents that belong together."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[ColocationStrategy], Field(min_length=1, max_length=1000)]


class WouldStoreColocationStrategy(BaseModel):
    """What would be stored (null: nothing, it would be deleted), how that differs from what is, and what nodes would
    offer then (null: nobody asked)."""

    document: ColocationStrategy | None
    changes: tuple[FieldChange, ...]
    offers: OffersTried | None


class WouldStoreColocationStrategies(BaseModel):
    """What would be stored, how that differs from what is, and what nodes would offer with all of it (null: nobody
    asked)."""

    items: list[WouldStoreColocationStrategy]
    offers: OffersTried | None


def strategy_router(change: ChangeStrategies, trying: TryStrategies) -> Routes:
    """Documents of the kind ColocationStrategy. The ETag of each is its generation."""
    router = Routes(prefix="/v1/colocationstrategies", tags=["colocation"])
    reading = Reading(
        one="colocation_strategy",
        several="colocation_strategies",
        model=ColocationStrategy,
        listing=ColocationStrategies,
        lists="Every ColocationStrategy with who follows it",
        all=change.all,
        read=change.read,
    )
    reading_routes(router, reading)
    _changing(router, change, trying, reading)
    _changing_several(router, change, trying)
    return router


def _changing_several(router: Routes, change: ChangeStrategies, trying: TryStrategies) -> None:
    @router.post("", role=Role.OPERATOR, summary="Create or replace several ColocationStrategies, all or none")
    async def apply_colocation_strategies(
        wanted: WantedColocationStrategies,
        principal: By,
        dry_run: DryRun = False,
        limit: Most = NAMED,
        offers: Offers = True,
    ) -> ColocationStrategies | WouldStoreColocationStrategies:
        """Each is checked with all the others in place, and none is stored if one is refused. A dry run answers with
        the offers of every node before, and after all of them. 409 if a metadata.generation is not the present one,
        422 for what could not be used."""
        done = await change.put_all(wanted.items, by=principal.name, dry_run=dry_run)
        documents = [each.document for each in done if each.document is not None]
        if not dry_run:
            return ColocationStrategies(items=documents)
        found = await trying.offers(done[0].would or change.in_force, limit) if offers else None
        tried = [
            WouldStoreColocationStrategy(document=one, changes=changes(each.before, one.document()), offers=None)
            for each, one in zip(done, documents, strict=True)
        ]
        return WouldStoreColocationStrategies(items=tried, offers=None if found is None else OffersTried.of(found))


def _changing(
    router: Routes, change: ChangeStrategies, trying: TryStrategies, reading: Reading[ColocationStrategy]
) -> None:
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
        refuse_other_name(wanted, name)
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(await reading.generation(name, if_match))
        done = await change.put(wanted, by=principal.name, dry_run=dry_run)
        if dry_run or done.document is None:
            return await tried(done, limit, offers)
        return answer(response, done.document, is_new=done.is_new)

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
        generation = 0 if if_match is None else await reading.generation(name, if_match)
        done = await change.delete(name, generation=generation, dry_run=dry_run)
        return await tried(done, limit, offers) if dry_run else dict(done.before)
