"""Guards every RPC: authentication, authorization, and errors in one form.

An error is a status code, a message, and in the trailing metadata `slackwater-code` (stable, as in
REST) and `slackwater-field`. A defect reveals no details; the log has them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from slackwater.model import errors
from slackwater.runtime.authentication import Authenticator, Forbidden, RpcRoles, Unauthorized, authenticate
from slackwater.runtime.rpc_watch import RpcWatch, traced_call
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
Metadata = Iterable[tuple[str, str | bytes]]
UNARY_SECONDS = 30.0
"""Timeout of a unary call without a shorter deadline."""

MOST_MESSAGE_BYTES = 4000
"""Limit of an error message as sent: clients refuse trailers from 8 KiB on, and then see neither
status nor code.
"""


class Exhausted(errors.SlackwaterError):
    """The caller exceeds a limit of size or number; gRPC RESOURCE_EXHAUSTED."""

    code = "exhausted"


STATUS_OF: Sequence[tuple[type[errors.SlackwaterError], grpc.StatusCode]] = (
    (errors.InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotFound, grpc.StatusCode.NOT_FOUND),
    (errors.Conflict, grpc.StatusCode.ABORTED),
    (errors.Unavailable, grpc.StatusCode.UNAVAILABLE),
    (errors.Misconfigured, grpc.StatusCode.FAILED_PRECONDITION),
    (Unauthorized, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (Exhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
)


def status_of(error: errors.SlackwaterError) -> grpc.StatusCode:
    """Returns the status of an error; INTERNAL outside the error tree."""
    return next((status for kind, status in STATUS_OF if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def trailers_of(error: errors.SlackwaterError) -> tuple[tuple[str, str], ...]:
    """Returns the trailing metadata for programs."""
    return (("slackwater-code", error.code), *((("slackwater-field", error.field),) if error.field else ()))


def short(message: str) -> str:
    """Returns the message, truncated to what trailers carry; gRPC sends %XX for most bytes."""
    sent = 0
    for place, letter in enumerate(message):
        plain = " " <= letter <= "~" and letter != "%"
        sent += 1 if plain else 3 * len(letter.encode(errors="replace"))
        if sent > MOST_MESSAGE_BYTES:
            return message[:place] + "…"
    return message


class RpcGuard(grpc.aio.ServerInterceptor):
    """Wraps every handler, unary or streaming."""

    def __init__(self, gate: Authenticator, roles: RpcRoles, watch: RpcWatch) -> None:
        self._gate = gate
        self._roles = roles
        self._watch = watch

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None:
            self._watch.unserved()
            return None  # UNIMPLEMENTED, for every caller
        return self._guarded(handler, handler_call_details.method, handler_call_details.invocation_metadata)

    def _guarded(self, handler: Any, method: str, metadata: Metadata) -> grpc.RpcMethodHandler[Any, Any]:
        """Returns the handler with the checks in front. A streaming handler's answers are written
        here, so that one task runs and closes it.
        """
        kind = f"{_manner(handler.request_streaming)}_{_manner(handler.response_streaming)}"
        behaviour = getattr(handler, kind)
        parsed = _parsing(handler.request_deserializer, streams=handler.request_streaming)
        answer = _writing(behaviour) if inspect.isasyncgenfunction(behaviour) else behaviour
        if not handler.response_streaming:
            answer = _in_time(answer)

        async def call(request: Any, context: Any) -> Any:
            with self._watch.measured(method, context):
                try:
                    self._admit(method, metadata, context)
                except errors.SlackwaterError as error:
                    await _refuse(context, method, error)
                with traced_call(method, context, metadata):
                    try:
                        return await answer(parsed(request), context)
                    except Exception as error:  # noqa: BLE001 - every fault becomes a status; defects are logged there
                        await _refuse(context, method, error)

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        guarded: grpc.RpcMethodHandler[Any, Any] = make(call, None, handler.response_serializer)
        return guarded

    def _admit(self, method: str, metadata: Metadata, context: Any) -> None:
        shown = {key: value for key, value in metadata if isinstance(value, str)}
        authenticate(self._roles.required_role(method), self._gate.authenticate(shown, _common_name(context)))


def _common_name(context: Any) -> str | None:
    """Returns the common name of the client's verified certificate; None without one, or unless it
    has exactly one.
    """
    names = context.auth_context().get("x509_common_name", ())
    return names[0].decode(errors="replace") if len(names) == 1 else None


def _manner(streams: bool) -> str:
    return "stream" if streams else "unary"


def _parsing(deserialize: Callable[[bytes], Any], *, streams: bool) -> Callable[[Any], Any]:
    """Returns a deserializer that raises InvalidInput; the library would answer INTERNAL to
    malformed bytes.
    """

    def parse(request: bytes) -> Any:
        try:
            return deserialize(request)
        except DecodeError as error:
            raise errors.InvalidInput(f"the request is no message of this RPC: {error}", code="bad_request") from None

    async def parse_each(requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for request in requests:
            yield parse(request)

    return parse_each if streams else parse


def _writing(behaviour: Any) -> Any:
    async def call(request: Any, context: Any) -> None:
        async with aclosing(behaviour(request, context)) as responses:
            async for response in responses:
                await context.write(response)

    return call


def _in_time(behaviour: Any) -> Any:
    async def call(request: Any, context: Any) -> Any:
        async with asyncio.timeout(UNARY_SECONDS):
            return await behaviour(request, context)

    return call


async def _refuse(context: Any, method: str, error: Exception) -> None:
    """End the call with the error's status."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, errors.SlackwaterError):
        kept = tuple(context.trailing_metadata() or ())
        await context.abort(status_of(error), short(error.message), (*kept, *trailers_of(error)))
    if isinstance(error, TimeoutError):
        await context.abort(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"no answer within {UNARY_SECONDS:.0f} s; try again later",
            (("slackwater-code", "deadline_exceeded"),),
        )
    log.error("RPC failed", method=method, exc_info=error)
    message = "internal error; the server's log has the details"
    await context.abort(grpc.StatusCode.INTERNAL, message, (("slackwater-code", errors.SlackwaterError.code),))
