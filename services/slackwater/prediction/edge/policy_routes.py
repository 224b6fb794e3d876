"""/v1/predictpolicies: what operators decide about predictions, for the cluster and for pools."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response
from fastapi import Path as InPath
from pydantic import BaseModel

from slackwater.model.errors import InvalidInput
from slackwater.prediction.usecases.change_policies import ChangePolicies
from slackwater.prediction.usecases.predict_policy import PredictPolicy
from slackwater.runtime.etags import (
    NOT_MODIFIED,
    IfMatch,
    IfNoneMatch,
    etag,
    matched,
    unchanged,
)
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller
from slackwater.waterline.changes import FieldChange, changes

Name = Annotated[str, InPath(description="`default` is the cluster's, any other a pool's.")]
By = Annotated[Principal, Depends(caller)]


class PredictPolicies(BaseModel):
    """Every document, the cluster's first."""

    items: list[PredictPolicy]


class WouldStorePredictPolicy(BaseModel):
    """What would be stored (null: nothing, it would be deleted), and how that differs from what is."""

    document: PredictPolicy | None
    changes: tuple[FieldChange, ...]


def policy_router(change: ChangePolicies) -> Routes:
    """Documents of the kind PredictPolicy. The ETag of each is its generation."""
    router = Routes(prefix="/v1/predictpolicies", tags=["prediction"])
    _reading(router, change)
    _changing(router, change)
    return router


def _reading(router: Routes, change: ChangePolicies) -> None:
    @router.get(
        "",
        role=Role.VIEWER,
        response_model_exclude_none=True,
        summary="Every PredictPolicy with what it comes to",
    )
    async def list_predict_policies() -> PredictPolicies:
        return PredictPolicies(items=list(await change.all()))

    @router.get(
        "/{name}",
        role=Role.VIEWER,
        response_model=PredictPolicy,
        response_model_exclude_none=True,
        responses=NOT_MODIFIED,
        summary="One PredictPolicy",
    )
    async def read_predict_policy(
        name: Name, response: Response, if_none_match: IfNoneMatch = None
    ) -> PredictPolicy | Response:
        present = await change.read(name)
        if unchanged(if_none_match, etag_of(present)):
            return Response(status_code=304, headers={"etag": etag_of(present)})
        response.headers["etag"] = etag_of(present)
        return present


def _changing(router: Routes, change: ChangePolicies) -> None:
    @router.put(
        "/{name}",
        role=Role.OPERATOR,
        summary="Create or replace a PredictPolicy",
        responses={201: {"model": PredictPolicy, "description": "It did not exist."}},
    )
    async def put_predict_policy(
        name: Name,
        wanted: PredictPolicy,
        response: Response,
        principal: By,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> PredictPolicy | WouldStorePredictPolicy:
        """Every replica follows it at once. 412 if If-Match is not the present ETag, 409 if metadata.generation is not
        the present one, 422 for what could not be used, by this pool or by one that follows it."""
        if wanted.metadata.name != name:
            raise InvalidInput(
                f"metadata.name: {wanted.metadata.name!r} is not the name in the path, {name!r}; write the same twice",
                field="metadata.name",
            )
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(await _matched(change, name, if_match))
        done = await change.put(wanted, by=principal.name, dry_run=dry_run)
        if dry_run:
            return WouldStorePredictPolicy(
                document=done.document, changes=changes(done.before, done.document.document())
            )
        response.status_code = 201 if done.is_new else 200
        response.headers["etag"] = etag_of(done.document)
        return done.document

    @router.delete("/{name}", role=Role.OPERATOR, summary="Remove the PredictPolicy of a pool")
    async def delete_predict_policy(
        name: Name, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> PredictPolicy | WouldStorePredictPolicy | dict[str, Any]:
        """The pool follows the cluster's from then on. The answer is what is gone. 409 for the cluster's own."""
        generation = 0 if if_match is None else await _matched(change, name, if_match)
        gone = await change.delete(name, generation=generation, dry_run=dry_run)
        if dry_run:
            return WouldStorePredictPolicy(document=None, changes=changes(gone, {}))
        return dict(gone)


async def _matched(change: ChangePolicies, name: str, if_match: str) -> int:
    async def generation() -> int:
        return (await change.read(name)).metadata.generation

    return await matched(generation, if_match)


def etag_of(document: PredictPolicy) -> str:
    return etag(document.metadata.generation)
