"""REST routes of a resource kind, generated from its declaration: list, read, put, delete, and put
of several.

The ETag of a document is its generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic

from fastapi import Depends, Response
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, create_model

from slackwater.model.errors import Conflict, InvalidInput
from slackwater.resources.change import Change, ChangeResources
from slackwater.resources.changed_event import MOST_BYTES as MOST_DOCUMENT_BYTES
from slackwater.resources.diff import FieldChange, changes
from slackwater.resources.history import ResourceHistory
from slackwater.resources.hooks import R, V
from slackwater.resources.kind import Kind, loaded
from slackwater.resources.metadata import Resource
from slackwater.resources.names import API_VERSION, CLUSTER_AUTHOR
from slackwater.resources.store import KEPT_GENERATIONS
from slackwater.runtime.etags import NOT_MODIFIED, IfMatch, IfNoneMatch, etag, matched, unchanged
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import DryRun, Routes, caller
from slackwater.runtime.settings import ResourceSettings

By = Annotated[Principal, Depends(caller)]
RULES = "412 if If-Match is not the present ETag, 409 if metadata.generation is not the present one"


def refuse_foreign_change(kind: Kind, source: str) -> None:
    """Raises Conflict if documents of a kind are not changed here: `source` is the setting of that name."""
    if source != "database":
        kinds = f"{kind.plural}.{API_VERSION.partition('/')[0]}"
        raise Conflict(
            f"documents of this kind come from the cluster's custom resources {kinds}: change them there, with kubectl"
            f" apply -f or kubectl delete {kinds} NAME; SLACKWATER_RESOURCES_SOURCE=database makes this API the source",
            code="documents_from_cluster",
        )


class Served(Generic[R, V]):
    """A kind with the schemas of its answers."""

    def __init__(self, change: ChangeResources[R, V], model: type[Resource]) -> None:
        self.change = change
        self.source = ResourceSettings().source
        self.kind = kind = change.kind
        self.model = model
        preview, differing = kind.preview, (tuple[FieldChange, ...], ...)
        tried: dict[str, Any] = {"document": (optional(model), ...), "changes": differing}
        self.previewed: Any = None if preview is None else loaded(preview.model)
        if preview is not None:
            tried[preview.field] = (optional(self.previewed), ...)
        self.parameters: Callable[..., Any] = no_parameters if preview is None else loaded(preview.parameters)
        said = "What would be stored (null: it would be deleted), and how that differs from what is stored."
        self.would: Any = create_model(f"WouldStore{model.__name__}", __doc__=said, **tried)
        item: Any = kind.model_of(kind.parent) | model if kind.parent_model else model
        self.many: Any = create_model(f"{model.__name__}List", items=(list[item], ...))

    def refuse_foreign(self, principal: Principal, *, dry_run: bool) -> None:
        """Raises Conflict for a change by another principal than CLUSTER_AUTHOR while a cluster is the source."""
        if principal.name != CLUSTER_AUTHOR and not dry_run:
            refuse_foreign_change(self.kind, self.source)

    async def answer(self, done: Change[R, V], arguments: Any, *, with_preview: bool = True) -> BaseModel:
        """Returns the answer of a change, including the preview of a dry run. Raises
        Unavailable.
        """
        found: dict[str, Any] = {"document": done.document, "changes": changes(done.before, done.after)}
        if self.kind.preview is not None:
            found[self.kind.preview.field] = await self.preview(done, arguments) if with_preview else None
        answer: BaseModel = self.would(**found)
        return answer

    async def preview(self, done: Change[R, V], arguments: Any) -> Any:
        would = done.would or self.change.in_force.now
        result = await self.change.hooks.preview(self.change.in_force.now, would, arguments)
        return None if result is None else self.previewed.of(result)

    async def expected(self, name: str, if_match: str | None, given: int) -> int:
        """Returns the generation that a change expects: If-Match's, if given. Raises
        PreconditionFailed.
        """
        if if_match is None:
            return given
        return await matched(lambda: self.change.generation(name), if_match)


def optional(model: Any) -> Any:
    """Returns the type of a nullable field."""
    return model | None


def no_parameters() -> None:
    """The query parameters of a kind without a preview: none."""


def resource_router(change: ChangeResources[Any, Any]) -> Routes:
    """Returns all routes of one kind."""
    kind = change.kind
    router = Routes(prefix=kind.path, tags=[kind.service])
    served = Served(change, kind.model_of())
    if kind.parent_model:
        _add_parent(router, Served(change, kind.model_of(kind.parent)))
    _add_reads(router, served)
    _add_history(router, served)
    _add_put(router, served)
    _add_delete(router, served)
    if kind.together:
        _add_apply(router, served)
    return router


def operation(kind: Kind, verb: str, *, several: bool = False, of: str = "") -> dict[str, str]:
    """Returns the OpenAPI name of an operation, from which clients are generated."""
    noun = kind.operation_plural if several else kind.operation_noun
    return {"operation_id": f"{verb}_{noun}{f'_{of}' if of else ''}"}


def _inherits(kind: Kind) -> bool:
    return bool(kind.parent) and kind.inherits


def _name_in_path(kind: Kind) -> Any:
    said = "`default` is the cluster's, any other a pool's." if _inherits(kind) else "The document's metadata.name."
    return Annotated[str, InPath(description=said)]


def _add_reads(router: Routes, served: Served[Any, Any]) -> None:
    kind, change = served.kind, served.change

    async def read_all() -> Any:
        return served.many(items=list(await change.all()))

    async def read_one(name: Any, response: Response, if_none_match: IfNoneMatch = None) -> Any:
        return _read(await change.read(name), response, if_none_match)

    read_one.__annotations__["name"] = _name_in_path(kind)
    router.get(
        "",
        role=Role.VIEWER,
        response_model=served.many,
        response_model_exclude_none=True,
        summary=f"Every {kind.name}",
        **operation(kind, "list", several=True),
    )(read_all)
    router.get(
        "/{name}",
        role=Role.VIEWER,
        response_model=served.model,
        response_model_exclude_none=True,
        responses=NOT_MODIFIED,
        summary=f"One {kind.name}",
        **operation(kind, "get"),
    )(read_one)


def _add_history(router: Routes, served: Served[Any, Any]) -> None:
    kind, change = served.kind, served.change

    async def read_history(name: Any) -> ResourceHistory:
        return await change.history(name)

    read_history.__annotations__["name"] = _name_in_path(kind)
    router.get(
        "/{name}/history",
        role=Role.VIEWER,
        summary=f"The history of one {kind.name}",
        description=f"Its last {KEPT_GENERATIONS} generations, the newest first, also after it was deleted.",
        **operation(kind, "get", of="history"),
    )(read_history)


def _read(present: Resource, response: Response, if_none_match: str | None) -> Any:
    tag = etag(present.metadata.generation)
    if unchanged(if_none_match, tag):
        return Response(status_code=304, headers={"etag": tag})
    response.headers["etag"] = tag
    return present


def _put_endpoint(served: Served[Any, Any]) -> Callable[..., Any]:
    """Returns the endpoint for PUT of one document under the name in its path."""

    async def put(
        name: Any,
        wanted: Any,
        response: Response,
        principal: By,
        arguments: Any,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Any:
        served.refuse_foreign(principal, dry_run=dry_run)
        refuse_other_name(wanted, name)
        expected = await served.expected(name, if_match, wanted.metadata.generation)
        done = await served.change.put(wanted.with_generation(expected), by=principal.name, dry_run=dry_run)
        _warn(response, done)
        if dry_run:
            return await served.answer(done, arguments)
        response.status_code = 201 if done.is_new else 200
        stored: Any = done.document
        response.headers["etag"] = etag(stored.metadata.generation)
        return stored

    put.__annotations__ |= {
        "name": _name_in_path(served.kind),
        "wanted": served.model,
        "arguments": Annotated[Any, Depends(served.parameters)],
    }
    return put


def _add_put(router: Routes, served: Served[Any, Any]) -> None:
    kind = served.kind
    router.put(
        "/{name}",
        role=Role.OPERATOR,
        most_bytes=MOST_DOCUMENT_BYTES,
        response_model=served.model | served.would,
        response_model_exclude_none=not kind.nulls,
        summary=f"Create or replace a {kind.name}",
        description=f"Every replica follows it at once. {RULES}, 422 for what could not be used.",
        responses={201: {"model": served.model, "description": "It did not exist."}},
        **operation(kind, "put"),
    )(_put_endpoint(served))


def _add_delete(router: Routes, served: Served[Any, Any]) -> None:
    kind = served.kind

    async def delete(
        name: Any,
        arguments: Any,
        response: Response,
        principal: By,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Any:
        served.refuse_foreign(principal, dry_run=dry_run)
        generation = await served.expected(name, if_match, 0)
        done = await served.change.delete(name, by=principal.name, generation=generation, dry_run=dry_run)
        _warn(response, done)
        return await served.answer(done, arguments) if dry_run else dict(done.before)

    delete.__annotations__ |= {
        "name": _name_in_path(kind),
        "arguments": Annotated[Any, Depends(served.parameters)],
    }
    inherited = f" What followed it follows `{kind.parent}` from then on; 409 for that one."
    router.delete(
        "/{name}",
        role=Role.OPERATOR,
        response_model=(served.model | served.would | dict[str, Any]) if kind.nulls else served.would | dict[str, Any],
        response_model_exclude_none=not kind.nulls,
        summary=f"Remove a {kind.name}",
        description="The answer is what is gone." + (inherited if _inherits(kind) else ""),
        **operation(kind, "delete"),
    )(delete)


def _add_apply(router: Routes, served: Served[Any, Any]) -> None:
    """Add POST of several documents, all or none. A dry run has one preview of all of them
    together.
    """
    kind, change = served.kind, served.change
    several: Any = list[served.model]  # type: ignore[name-defined]  # at run time
    wanted_model = create_model(
        f"Wanted{served.many.__name__}",
        __config__=ConfigDict(extra="forbid"),
        items=(Annotated[several, Field(min_length=1, max_length=1000)], ...),
    )
    tried: dict[str, Any] = {"items": (list[served.would], ...)}  # type: ignore[name-defined]
    if kind.preview is not None:
        tried[kind.preview.field] = (optional(served.previewed), ...)
    would_all: Any = create_model(f"WouldStore{served.many.__name__}", **tried)

    async def apply(wanted: Any, response: Response, principal: By, arguments: Any, dry_run: DryRun = False) -> Any:
        served.refuse_foreign(principal, dry_run=dry_run)
        done = await change.put_all(wanted.items, by=principal.name, dry_run=dry_run)
        _warn(response, done[0])
        if not dry_run:
            return served.many(items=[each.document for each in done])
        answers: dict[str, Any] = {"items": [await served.answer(each, None, with_preview=False) for each in done]}
        if kind.preview is not None:
            answers[kind.preview.field] = await served.preview(done[0], arguments)
        return would_all(**answers)

    apply.__annotations__ |= {"wanted": wanted_model, "arguments": Annotated[Any, Depends(served.parameters)]}
    router.post(
        "",
        role=Role.OPERATOR,
        response_model=served.many | would_all,
        response_model_exclude_none=not kind.nulls,
        summary=f"Create or replace several {served.many.__name__}, all or none",
        description=f"Each is checked with all the others in place, and none is stored if one is refused. {RULES}.",
        **operation(kind, "apply", several=True),
    )(apply)


def _add_parent(router: Routes, served: Served[Any, Any]) -> None:
    """Add GET and PUT of the parent document, for a kind whose parent has a model of its own."""
    kind = served.kind
    path, put = f"/{kind.parent}", _put_endpoint(served)

    async def read_parent(response: Response, if_none_match: IfNoneMatch = None) -> Any:
        return _read(await served.change.read(kind.parent), response, if_none_match)

    async def replace_parent(
        wanted: Any, response: Response, principal: By, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> Any:
        return await put(kind.parent, wanted, response, principal, None, if_match, dry_run)

    replace_parent.__annotations__["wanted"] = served.model
    router.get(
        path,
        role=Role.VIEWER,
        **operation(kind, "get", of=kind.parent),
        response_model=served.model,
        response_model_exclude_none=True,
        responses=NOT_MODIFIED,
        description=f"The {kind.name} of the whole cluster.",
    )(read_parent)
    router.put(
        path,
        role=Role.OPERATOR,
        most_bytes=MOST_DOCUMENT_BYTES,
        **operation(kind, "put", of=kind.parent),
        response_model=served.model | served.would,
        response_model_exclude_none=True,
        description=f"Replace it. {RULES}.",
    )(replace_parent)


def _warn(response: Response, done: Change[Any, Any]) -> None:
    """Set the header in which Kubernetes' API also answers warnings of a change that succeeded: 299 for what holds as
    long as the document is as it is, 199 for what passes."""
    found = [f'{code} - "{_quotable(text)}"' for code, text in ((199, done.warning), (299, done.notice)) if text]
    if found:
        response.headers["warning"] = ", ".join(found)


def _quotable(text: str) -> str:
    plain = text.encode("ascii", "replace").decode().replace("\\", " ").replace('"', "'")
    return " ".join(plain.split())


def refuse_other_name(wanted: Resource, name: str) -> None:
    """Raises InvalidInput unless the document's name equals the name in the path."""
    if wanted.name != name:
        raise InvalidInput(
            f"metadata.name: {wanted.name!r} is not the name in the path, {name!r}; use the same name in both",
            field="metadata.name",
        )
