"""/v1/podqos, /v1/avoidanceactions, /v1/autonomies and /v1/nodeqos for some nodes: one set of routes for each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Response
from fastapi import Path as InPath
from pydantic import create_model

from slackwater.ensurance.usecases.change_documents import ChangeDocuments
from slackwater.model.errors import InvalidInput
from slackwater.runtime.etags import NOT_MODIFIED, IfMatch, IfNoneMatch, etag, matched, unchanged
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller
from slackwater.waterline.changes import FieldChange, changes
from slackwater.waterline.nodeqos import CLUSTER, NodeQos

Name = Annotated[str, InPath(description="The document's metadata.name.")]
By = Annotated[Principal, Depends(caller)]


def document_router(change: ChangeDocuments, cluster: Callable[[], Awaitable[NodeQos]] | None = None) -> Routes:
    """The documents of one kind. The ETag of each is its generation. `cluster` is listed before all others."""
    router = Routes(prefix=change.kind.path, tags=["ensurance"])
    _reading(router, change, cluster)
    _changing(router, change)
    return router


def _reading(router: Routes, change: ChangeDocuments, cluster: Callable[[], Awaitable[NodeQos]] | None) -> None:
    kind, model = change.kind, change.kind.model
    items: Any = list[model] if cluster is None else list[NodeQos | model]  # type: ignore[valid-type]  # at runtime
    many = create_model(f"{model.__name__}List", items=(items, ...))

    async def list_documents() -> Any:
        first = [] if cluster is None else [await cluster()]
        return many(items=[*first, *await change.all()])

    async def read_document(name: Name, response: Response, if_none_match: IfNoneMatch = None) -> Any:
        present = await change.read(name)
        tag = etag(present.metadata.generation)
        if unchanged(if_none_match, tag):
            return Response(status_code=304, headers={"etag": tag})
        response.headers["etag"] = tag
        return present

    title = model.model_fields["kind"].default
    router.get(
        "", role=Role.VIEWER, response_model=many, response_model_exclude_none=True, summary=f"Every {title}",
        operation_id=f"list_{kind.table}",
    )(list_documents)  # fmt: skip
    router.get(
        "/{name}", role=Role.VIEWER, response_model=model, response_model_exclude_none=True, responses=NOT_MODIFIED,
        summary=f"One {title}", operation_id=f"read_{kind.table}",
    )(read_document)  # fmt: skip


def _changing(router: Routes, change: ChangeDocuments) -> None:
    kind, model = change.kind, change.kind.model
    shown: Any = model | None
    would = create_model(f"WouldStore{model.__name__}", document=(shown, ...), changes=(tuple[FieldChange, ...], ...))

    async def put_document(
        name: Name,
        wanted: Any,
        response: Response,
        principal: By,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Any:
        """Every replica follows it at once. 412 if If-Match is not the present ETag, 409 if metadata.generation is not
        the present one."""
        if wanted.metadata.name != name or (name == CLUSTER and kind.path == "/v1/nodeqos"):
            raise InvalidInput(
                f"metadata.name: {wanted.metadata.name!r} is not the name in the path, {name!r}; write the same twice",
                field="metadata.name",
            )
        if if_match is not None:  # what was just compared must still be there when it is written
            at = wanted.metadata.at(await _matched(change, name, if_match))
            wanted = wanted.model_copy(update={"metadata": at})
        done = await change.put(wanted, by=principal.name, dry_run=dry_run)
        if dry_run:
            return would(document=done.document, changes=changes(done.before, done.document.document()))
        response.status_code = 201 if done.is_new else 200
        response.headers["etag"] = etag(done.document.metadata.generation)
        return done.document

    async def delete_document(name: Name, if_match: IfMatch = None, dry_run: DryRun = False) -> Any:
        """The answer is what is gone."""
        generation = 0 if if_match is None else await _matched(change, name, if_match)
        gone = await change.delete(name, generation=generation, dry_run=dry_run)
        return would(document=None, changes=changes(gone, {})) if dry_run else dict(gone)

    put_document.__annotations__["wanted"] = model
    title = model.model_fields["kind"].default
    router.put(
        "/{name}", role=Role.OPERATOR, response_model=model | would, response_model_exclude_none=True,
        summary=f"Create or replace a {title}", operation_id=f"put_{kind.table}",
        responses={201: {"model": model, "description": "It did not exist."}},
    )(put_document)  # fmt: skip
    router.delete(
        "/{name}", role=Role.OPERATOR, response_model=would | dict[str, Any], response_model_exclude_none=True,
        summary=f"Remove a {title}", operation_id=f"delete_{kind.table}",
    )(delete_document)  # fmt: skip


async def _matched(change: ChangeDocuments, name: str, if_match: str) -> int:
    async def generation() -> int:
        return (await change.read(name)).metadata.generation

    return await matched(generation, if_match)
