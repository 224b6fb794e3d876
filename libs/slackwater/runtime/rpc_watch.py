"""Measures every RPC, refused ones included, and creates a span under a tracing caller's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from slackwater.runtime.rpc_metrics import RpcMetrics
from slackwater.telemetry.spans import Attributes, Span, new_traceparent, span, trace_id_of

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
"""Codes that are failures of the server; the others are the caller's errors (OpenTelemetry,
RPC).
"""


class RpcWatch:
    """Observes calls without changing them."""

    def __init__(self, metrics: RpcMetrics) -> None:
        self._metrics = metrics

    def unserved(self) -> None:
        """Count a call of an unimplemented method."""
        self._metrics.calls.labels(UNKNOWN, grpc.StatusCode.UNIMPLEMENTED.name).inc()

    @contextmanager
    def measured(self, method: str, context: Any) -> Iterator[None]:
        """Measures a call from its arrival, before authentication, to its end."""
        name = method.removeprefix("/")
        begun = time.perf_counter()
        with self._metrics.open.labels(name).track_inprogress():
            try:
                yield
            except asyncio.CancelledError:
                self._ended(name, _cancelled(context), begun)
                raise
            except BaseException:
                self._ended(name, _status_of(context), begun)
                raise
            else:
                self._ended(name, _status_of(context), begun)

    def _ended(self, name: str, code: grpc.StatusCode, begun: float) -> None:
        self._metrics.calls.labels(name, code.name).inc()
        self._metrics.seconds.labels(name, code.name).observe(time.perf_counter() - begun)


@contextmanager
def traced_call(method: str, context: Any, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Span]:
    """Yields the span of an admitted call. A call without a trace exports none.

    For a block that ends with the call: the call's status is read when the block is left.
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
        except grpc.aio.AbortError as error:  # an answer, not a failure of this step: raised again below
            refused = error
            _note(step, _status_of(context))
        else:
            _note(step, _status_of(context))
    if refused is not None:
        raise refused


def parent_in(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Returns the caller's traceparent, or a new unsampled one if it is missing or invalid."""
    shown = next((value for key, value in metadata if key == "traceparent" and isinstance(value, str)), None)
    return shown if shown is not None and trace_id_of(shown) else new_traceparent(sampled=False)


def _note(step: Span, code: grpc.StatusCode) -> None:
    step.note({"rpc.grpc.status_code": code.value[0]})
    if code in _OURS:
        step.failed(code.name)


def _status_of(context: Any) -> grpc.StatusCode:
    """Returns the status that ended the call; OK if none was set."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code
    return _CODES.get(code or 0, grpc.StatusCode.UNKNOWN)


def _cancelled(context: Any) -> grpc.StatusCode:
    """Distinguishes an expired deadline from a disconnected caller, by the time left."""
    left = context.time_remaining()
    late = left is not None and left <= 0
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
