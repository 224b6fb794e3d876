"""Routes that must declare the required role and, if they change something, accept a dry run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.runtime.authentication import authenticate
from slackwater.runtime.body_limit import MOST_BYTES, BodyTooLarge, declared_bytes
from slackwater.runtime.large_bodies import LARGE_BYTES, LargeBodies
from slackwater.runtime.roles import OPEN, Needed, Principal, Role
from slackwater.runtime.strict_json import StrictRequest

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
PRINCIPAL = "slackwater.principal"
"""Key of the principal in the ASGI scope."""
ROLE_FIELD = "x-required-role"
"""OpenAPI field with the required role. The route reads it there too, so that the two cannot
differ.
"""
BYTES_FIELD = "x-most-bytes"
"""OpenAPI field with the largest body that the route takes, if that is less than BodyLimit lets pass."""
LARGE_BODIES = "large_bodies"
"""Name of the application's slackwater.runtime.large_bodies.LargeBodies in its state."""
SECURITY_SCHEME = "token"
DRY_RUN = "dryRun"
TOKEN = "token"  # noqa: S105 - the name of a parameter
"""Query parameter with which a browser sends its token once; slackwater.runtime.http_access reads it."""
LONGEST_NAME = 80
READS = frozenset({"GET", "HEAD", "OPTIONS"})
DryRun = Annotated[
    bool,
    Query(
        alias=DRY_RUN,
        description="Check everything, say what would be changed, and change nothing. Refused for what a real run "
        "would be refused for.",
    ),
]
"""The parameter of every route that changes something: `dry_run: DryRun = False`."""


class RoleRoute(APIRoute):
    """A route that authorizes the caller before it reads the request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Raises Misconfigured without a role, or for a change without a dry run."""
        super().__init__(path, endpoint, **options)
        role = (self.openapi_extra or {}).get(ROLE_FIELD)
        if role is None:
            raise Misconfigured(f"the route {path} declares no role; add role=Role.… or role=OPEN")
        self.needed: Needed = OPEN if role == OPEN else Role(role)
        self.most_bytes: int = (self.openapi_extra or {}).get(BYTES_FIELD, MOST_BYTES)
        self._known_parameters = frozenset(_query_parameters(self.dependant))
        if set(self.methods or ()) - READS and not self.can_be_tried:
            raise Misconfigured(f"the route {path} changes something: add `dry_run: DryRun = False`, and obey it")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns the parent's handler, with bodies parsed strictly."""
        answer = super().get_route_handler()

        async def answer_strictly(request: Request) -> Response:
            self._refuse_above(declared_bytes(request.scope))
            async with AsyncExitStack() as turn:

                async def admit(size: int) -> None:
                    self._refuse_above(size)
                    bodies: LargeBodies | None = getattr(request.app.state, LARGE_BODIES, None)
                    if size > LARGE_BYTES and bodies is not None:
                        await turn.enter_async_context(bodies.turn())

                return await answer(StrictRequest(request.scope, request.receive, admit))

        return answer_strictly

    def _refuse_above(self, size: int) -> None:
        if size > self.most_bytes:
            raise BodyTooLarge(self.most_bytes)

    @property
    def can_be_tried(self) -> bool:
        """Returns whether its endpoint accepts `?dryRun=true`."""
        return any(field.alias == DRY_RUN for field in self.dependant.query_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authorize the caller, then handle the request. Raises Unauthorized or Forbidden before
        any error of the request.
        """
        authenticate(self.needed, scope.get(PRINCIPAL))
        if self.include_in_schema:  # pages take any: links to them get parameters from mail and chat programs
            refuse_unknown_parameters(scope["query_string"], self._known_parameters)
        await super().handle(scope, receive, send)


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yields the query parameters of an endpoint and its dependencies."""
    yield from (field.alias for field in dependant.query_params)
    for part in dependant.dependencies:
        yield from _query_parameters(part)


def refuse_unknown_parameters(query: bytes, known: Collection[str]) -> None:
    """Raises InvalidInput (`unknown_parameter`) for the first unknown query parameter. A misspelt
    one would otherwise be ignored, and the answer would not match the question.
    """
    if not query:
        return
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known and name != TOKEN:
            allowed = ", ".join(sorted(known)) or "none"
            shown = name[:LONGEST_NAME]
            raise InvalidInput(
                f"{shown}: there is no such query parameter here; allowed: {allowed}",
                code="unknown_parameter",
                field=shown,
            )


def operation_id(route: APIRoute) -> str:
    """Returns the name of the endpoint: a verb and its object, which is the method of a client."""
    return route.name


class Routes(APIRouter):
    """An APIRouter whose every route requires `role=`: `@routes.get("/nodes",
    role=Role.VIEWER)`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=RoleRoute, generate_unique_id_function=operation_id, **options)

    # As in the parent class, plus the mandatory role argument.
    def get(self, path: str, *, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return super().get(path, openapi_extra=_saying(role, options), **options)

    def put(  # type: ignore[override]
        self, path: str, *, role: Needed, most_bytes: int = 0, **options: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """`most_bytes`: of the body, if that is less than any route takes."""
        extra = _saying(role, options) | ({BYTES_FIELD: most_bytes} if most_bytes else {})
        return super().put(path, openapi_extra=extra, **options)

    def post(self, path: str, *, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return super().post(path, openapi_extra=_saying(role, options), **options)

    def patch(self, path: str, *, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return super().patch(path, openapi_extra=_saying(role, options), **options)

    def delete(self, path: str, *, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return super().delete(path, openapi_extra=_saying(role, options), **options)


def _saying(role: Needed, options: dict[str, Any]) -> dict[str, Any]:
    security: list[Any] = [] if role == OPEN else [{SECURITY_SCHEME: []}]
    extra: dict[str, Any] = options.pop("openapi_extra", None) or {}
    return extra | {ROLE_FIELD: str(role), "security": security}


def caller(request: Request) -> Principal:
    """Returns the caller, for an endpoint that records it: `by: Annotated[Principal,
    Depends(caller)]`.
    """
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def guarded_routes(app: FastAPI) -> Iterator[tuple[str, frozenset[str], Needed]]:
    """Yields path, methods and role of every route. Raises Misconfigured for a route, mount or
    socket without a role.
    """
    for context in iter_route_contexts(app.routes):
        route: BaseRoute = context.original_route
        if not isinstance(route, RoleRoute):
            raise Misconfigured(f"the route {context.path or route} declares no role; use runtime.routes.Routes")
        yield str(context.path), frozenset(context.methods or ()), route.needed
