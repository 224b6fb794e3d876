"""Spans: exported through OpenTelemetry where an endpoint is configured, else only propagated as a traceparent.

The SDK is loaded only with an endpoint, so that a process without tracing pays one context variable per step. The first
step of a trace decides whether the trace is exported (the sampled flag) and later steps follow it, so that an exported
trace is complete.

The W3C header `traceparent` is `00-<32 hex trace>-<16 hex span>-<2 hex flags>`. Envelopes and records carry it from
report to actuation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from slackwater.model.errors import Misconfigured

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
Kind = Literal["internal", "producer", "consumer", "server"]
Attributes = Mapping[str, str | int | float | bool | None]
_NONE: Attributes = {}
_PROVIDER: ContextVar[TracerProvider | None] = ContextVar("slackwater-tracer-provider", default=None)


@dataclass(slots=True)
class Span:
    """One step. `traceparent` is passed to the next step; log lines of this step carry `attributes`."""

    traceparent: str
    attributes: Attributes = field(default_factory=dict)
    real: Any = None
    """The SDK's span; None if this step is not exported."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes that become known during the step."""
        if self.real is not None:
            self.real.set_attributes(_named(attributes))

    def failed(self, reason: str) -> None:
        """Mark the step as failed."""
        if self.real is not None:
            from opentelemetry.trace import Status, StatusCode

            self.real.set_status(Status(StatusCode.ERROR, reason))

    def end(self) -> None:
        """End a span made by `begin`; `span` ends its own."""
        if self.real is not None:
            self.real.end()


CURRENT: ContextVar[Span | None] = ContextVar("slackwater-span", default=None)
"""The current step of this task; log lines carry its trace and span ids."""


def configure_tracing(service: str) -> bool:
    """Set up the exporter if an endpoint is configured; return whether it was.

    Call it before the event loop starts, because tasks inherit the provider from their context.

    Raises:
        Misconfigured: an endpoint is configured, but the exporter is not installed.
    """
    if not any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise Misconfigured(
            f"{ENDPOINT_VARIABLES[0]} is set, but its exporter is not installed: "
            "pip install opentelemetry-exporter-otlp-proto-http, or unset it"
        ) from None
    _PROVIDER.set(provider_for(service, OTLPSpanExporter()))
    return True


def provider_for(service: str, exporter: SpanExporter) -> TracerProvider:
    """A provider that exports batches from a thread of its own and flushes when the process ends."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from slackwater.runtime.version import version

    name = "slackwater" if service == "slackwater" else f"slackwater-{service}"
    resource = Resource.create({"service.name": name, "service.namespace": "slackwater", "service.version": version()})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


@contextmanager
def tracing_to(provider: TracerProvider) -> Iterator[None]:
    """Send the spans of this block, and of tasks started in it, to `provider`; flush it at the end of the block."""
    token = _PROVIDER.set(provider)
    try:
        yield
    finally:
        _PROVIDER.reset(token)
        provider.shutdown()


def exporting(traceparent: str | None) -> bool:
    """Whether a step under this parent is exported. Cheap enough to call for every message."""
    return _PROVIDER.get() is not None and is_sampled(traceparent)


def begin(
    name: str,
    parent: str | None,
    attributes: Attributes = _NONE,
    *,
    kind: Kind = "internal",
    links: Sequence[str | None] = (),
    started_at: datetime | None = None,
) -> Span:
    """Begin a step under `parent` (a traceparent; None begins a trace). The caller must call `end`."""
    provider = _PROVIDER.get()
    if provider is None or not (parent is None or is_sampled(parent)):
        return Span(parent or new_traceparent(), attributes)
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    context = propagator.extract({"traceparent": parent}, Context()) if parent else Context()
    real = provider.get_tracer("slackwater").start_span(
        name,
        context=context,
        kind=SpanKind[kind.upper()],
        attributes=_named(attributes),
        links=[_link(link) for link in links if link is not None and is_sampled(link)],
        start_time=None if started_at is None else int(started_at.timestamp() * 1e9),
    )
    here = real.get_span_context()
    header = f"00-{here.trace_id:032x}-{here.span_id:016x}-{int(here.trace_flags):02x}"
    return Span(header, attributes, real if real.is_recording() else None)


@contextmanager
def span(
    name: str,
    parent: str | None = None,
    attributes: Attributes = _NONE,
    *,
    kind: Kind = "internal",
    links: Sequence[str | None] = (),
    started_at: datetime | None = None,
) -> Iterator[Span]:
    """Run a block as a step under `parent`, by default the current step. An exception marks the step as failed."""
    outer = CURRENT.get()
    if parent is None and outer is not None:
        parent = outer.traceparent
    step = begin(name, parent, attributes, kind=kind, links=links, started_at=started_at)
    token = CURRENT.set(step)
    try:
        yield step
    except Exception as error:
        step.failed(f"{type(error).__name__}: {error}")
        raise
    finally:
        CURRENT.reset(token)
        step.end()


@contextmanager
def step_of_current(name: str, attributes: Attributes = _NONE) -> Iterator[Span]:
    """Run a block as a child of the current step; without a current step no span is made."""
    outer = CURRENT.get()
    if outer is None:
        yield Span("")
        return
    with span(name, outer.traceparent, {**outer.attributes, **attributes}) as step:
        yield step


@contextmanager
def root_span(
    name: str, attributes: Attributes = _NONE, *, exported: bool, started_at: datetime | None = None
) -> Iterator[Span]:
    """Run a block as the first step of a new trace; `exported` sets the sampled flag of the whole trace."""
    parent = None if exported else new_traceparent(sampled=False)
    step = begin(name, parent, attributes, started_at=started_at)
    try:
        yield step
    finally:
        step.end()


def _named(attributes: Attributes) -> dict[str, str | int | float | bool]:
    """Attributes with full names: `node` gets the prefix `slackwater.`, `messaging_system` and `rpc.system` none."""
    return {_name_of(key): value for key, value in attributes.items() if value is not None}


def _name_of(key: str) -> str:
    if "." in key:
        return key
    return key.replace("_", ".", 1) if key.startswith("messaging_") else f"slackwater.{key}"


def _link(traceparent: str) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context())
    return Link(get_current_span(context).get_span_context())


_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED, _UNSAMPLED = "01", "00"
_ODD = frozenset("13579bdf")


def new_traceparent(*, sampled: bool = True) -> str:
    """The root of a new trace. An unsampled trace is propagated too, but not exported."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-{_SAMPLED if sampled else _UNSAMPLED}"


def child_of(traceparent: str | None) -> str:
    """A new span in the same trace with the same flags; a new trace if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return f"00-{match[2]}-{_random_hex(8)}-{match[4]}" if match else new_traceparent()


def trace_id_of(traceparent: str | None) -> str | None:
    """The trace id (32 hex digits); None if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return match[2] if match else None


def span_id_of(traceparent: str | None) -> str | None:
    """The span id (16 hex digits); None if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return match[3] if match else None


def is_sampled(traceparent: str | None) -> bool:
    """Whether the sampled flag is set. Checks only length and flag, because it is called for every message."""
    return traceparent is not None and len(traceparent) == 55 and traceparent[-1] in _ODD


def sampled(traceparent: str | None) -> str:
    """The same span with the sampled flag set, so that later steps are exported even if the cause was not."""
    match = _match(traceparent)
    return f"00-{match[2]}-{match[3]}-{_SAMPLED}" if match else new_traceparent()


def _match(traceparent: str | None) -> re.Match[str] | None:
    """The parts of a valid header; None otherwise. All-zero ids and version ff are invalid by the standard."""
    match = _FORM.fullmatch(traceparent or "")
    if match is None or match[1] == "ff" or set(match[2]) == {"0"} or set(match[3]) == {"0"}:
        return None
    return match


def _random_hex(count: int) -> str:
    while not any(drawn := os.urandom(count)):
        pass  # all zero is not a valid id
    return drawn.hex()
