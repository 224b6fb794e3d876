"""/v1/predictpolicies: what operators decide about predictions, for the cluster and for pools."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel

from slackwater.prediction.usecases.change_policies import ChangePolicies
from slackwater.prediction.usecases.predict_policy import PredictPolicy
from slackwater.runtime.document_routes import By, Name, Reading, answer, reading_routes, refuse_other_name
from slackwater.runtime.etags import IfMatch
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.waterline.changes import FieldChange, changes


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
    reading = Reading(
        one="predict_policy",
        several="predict_policies",
        model=PredictPolicy,
        listing=PredictPolicies,
        lists="Every PredictPolicy with what it comes to",
        all=change.all,
        read=change.read,
    )
    reading_routes(router, reading)
    _changing(router, change, reading)
    return router


def _changing(router: Routes, change: ChangePolicies, reading: Reading[PredictPolicy]) -> None:
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
        refuse_other_name(wanted, name)
        if if_match is not None:  # what was just compared must still be there when it is written
            wanted = wanted.with_generation(await reading.generation(name, if_match))
        done = await change.put(wanted, by=principal.name, dry_run=dry_run)
        if dry_run:
            return WouldStorePredictPolicy(
                document=done.document, changes=changes(done.before, done.document.document())
            )
        return answer(response, done.document, is_new=done.is_new)

    @router.delete("/{name}", role=Role.OPERATOR, summary="Remove the PredictPolicy of a pool")
    async def delete_predict_policy(
        name: Name, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> PredictPolicy | WouldStorePredictPolicy | dict[str, Any]:
        """The pool follows the cluster's from then on. The answer is what is gone. 409 for the cluster's own."""
        generation = 0 if if_match is None else await reading.generation(name, if_match)
        gone = await change.delete(name, generation=generation, dry_run=dry_run)
        if dry_run:
            return WouldStorePredictPolicy(document=None, changes=changes(gone, {}))
        return dict(gone)
