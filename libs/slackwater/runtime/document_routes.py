"""What the routes of every kind of document share: a list, one with its ETag, and what is refused before a change.

The ETag of a document is its generation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

from fastapi import Depends, Response
from fastapi import Path as InPath
from pydantic import BaseModel

from slackwater.model.errors import InvalidInput
from slackwater.runtime.etags import NOT_MODIFIED, IfNoneMatch, etag, matched, unchanged
from slackwater.runtime.roles import Principal, Role
from slackwater.runtime.routes import Routes, caller

Name = Annotated[str, InPath(description="`default` is the cluster's, any other a pool's.")]
By = Annotated[Principal, Depends(caller)]


class Head(Protocol):
    """slackwater.waterline.documents.Metadata."""

    @property
    def name(self) -> str: ...

    @property
    def generation(self) -> int: ...


class Document(Protocol):
    """One document of a kind."""

    @property
    def metadata(self) -> Head: ...


D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Reading(Generic[D]):
    """How documents of one kind are read. `one` and `several` are the nouns in names of operations, `listing` has
    `items`; `lists` says what the list is."""

    one: str
    several: str
    model: type[D]
    listing: type[BaseModel]
    lists: str
    all: Callable[[], Awaitable[Sequence[D]]]
    read: Callable[[str], Awaitable[D]]

    async def generation(self, name: str, if_match: str) -> int:
        """The present generation, if it is the one that was read. Raises PreconditionFailed."""

        async def present() -> int:
            return (await self.read(name)).metadata.generation

        return await matched(present, if_match)


def reading_routes(router: Routes, reading: Reading[Any]) -> None:
    """GET of all and of one."""

    @router.get(
        "",
        role=Role.VIEWER,
        name=f"list_{reading.several}",
        response_model=reading.listing,
        response_model_exclude_none=True,
        summary=reading.lists,
    )
    async def read_all() -> Any:
        return reading.listing(items=list(await reading.all()))

    @router.get(
        "/{name}",
        role=Role.VIEWER,
        name=f"read_{reading.one}",
        response_model=reading.model,
        response_model_exclude_none=True,
        responses=NOT_MODIFIED,
        summary=f"One {reading.model.__name__}",
    )
    async def read_one(name: Name, response: Response, if_none_match: IfNoneMatch = None) -> Any:
        present = await reading.read(name)
        if unchanged(if_none_match, etag_of(present)):
            return Response(status_code=304, headers={"etag": etag_of(present)})
        response.headers["etag"] = etag_of(present)
        return present


def refuse_other_name(wanted: Document, name: str) -> None:
    """Raises InvalidInput unless the document has the name that is in the path."""
    if wanted.metadata.name != name:
        raise InvalidInput(
            f"metadata.name: {wanted.metadata.name!r} is not the name in the path, {name!r}; write the same twice",
            field="metadata.name",
        )


def answer(response: Response, document: D, *, is_new: bool) -> D:
    """A document as it was just stored."""
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = etag_of(document)
    return document


def etag_of(document: Document) -> str:
    return etag(document.metadata.generation)
