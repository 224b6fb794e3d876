"""Every RPC measured and, if its caller traces, a span under the caller's: code by code, refused ones included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from slackwater.runtime.rpc_metrics import RpcMetrics
from slackwater.telemetry.spans import Attributes, Span, span
from slackwater.telemetry.traceparent import new_traceparent, trace_id_of

UNKNOWN = "unknown"
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_OURS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""Codes that are a failure of the server's step; the others are answers that a caller deserved (OpenTelemetry, RPC)."""


class RpcWatch:
    """Looks on; a call goes on as if nobody looked."""

    def __init__(self, metrics: RpcMetrics) -> None:
        self._metrics = metrics

    def unserved(self) -> None:
        """Somebody called what does not exist."""
        self._metrics.calls.labels(UNKNOWN, grpc.StatusCode.UNIMPLEMENTED.name).inc()

    @contextmanager
    def measured(self, method: str, context: Any) -> Iterator[None]:
        """A call from its arrival, before anybody is let in, to its end."""
        name = method.removeprefix("/")
        begun = time.perf_counter()
        with self._metrics.open.labels(name).track_inprogress():
            try:
                yield
            except asyncio.CancelledError:
                self._ended(name, _cancelled(context), begun)
                raise
            except BaseException:
                self._ended(name, _said(context), begun)
                raise
            else:
                self._ended(name, _said(context), begun)

    def _ended(self, name: str, code: grpc.StatusCode, begun: float) -> None:
        self._metrics.calls.labels(name, code.name).inc()
        self._metrics.seconds.labels(name, code.name).observe(time.perf_counter() - begun)


@contextmanager
def traced_call(method: str, context: Any, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Span]:
    """The step of a caller that was let in. Who calls without a trace begins none that is exported.

    For a block that ends with the call: what the call answered is read when the block is left.
    """
    service, _, name = method.removeprefix("/").rpartition("/")
    attributes: Attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
    refused: BaseException | None = None
    with span(method.removeprefix("/"), parent_in(metadata), attributes, kind="server") as step:
        try:
            yield step
        except asyncio.CancelledError:
            _note(step, _cancelled(context))
            raise
        except grpc.aio.AbortError as error:  # an answer, not a fault of this step: raised again behind it
            refused = error
            _note(step, _said(context))
        else:
            _note(step, _said(context))
    if refused is not None:
        raise refused


def parent_in(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The caller's traceparent, or a new one for nobody if there is none or it cannot be read."""
    shown = next((value for key, value in metadata if key == "traceparent" and isinstance(value, str)), None)
    return shown if shown is not None and trace_id_of(shown) else new_traceparent(sampled=False)


def _note(step: Span, code: grpc.StatusCode) -> None:
    step.note({"rpc.grpc.status_code": code.value[0]})
    if code in _OURS:
        step.failed(code.name)


def _said(context: Any) -> grpc.StatusCode:
    """What the call was ended with; OK if with nothing."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code
    return _CODES.get(code or 0, grpc.StatusCode.UNKNOWN)


def _cancelled(context: Any) -> grpc.StatusCode:
    """A caller's deadline looks like a caller that went away, but for the time that is left."""
    left = context.time_remaining()
    late = left is not None and left <= 0
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
