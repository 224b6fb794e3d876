"""Spans: exported through OpenTelemetry when OTEL_EXPORTER_OTLP_ENDPOINT is set, else only a traceparent handed on.

The SDK is loaded only then, so a process that traces nowhere pays nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.model.errors import Misconfigured
from slackwater.telemetry.traceparent import child_of

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


def configure_tracing(service: str) -> bool:
    """Set up the exporter if an endpoint is given; says whether. Raises Misconfigured if it is not installed."""
    if not os.environ.get(ENDPOINT_VARIABLE):
        return False
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise Misconfigured(
            f"{ENDPOINT_VARIABLE} is set, but its exporter is not installed: "
            "pip install opentelemetry-exporter-otlp-proto-http, or unset it"
        ) from None
    provider = TracerProvider(resource=Resource.create({"service.name": f"slackwater-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


@contextmanager
def span(name: str, parent: str | None = None, **attributes: str | int | float) -> Iterator[str]:
    """A step of the trace that `parent` (a traceparent) belongs to; yields the traceparent to hand on."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        yield child_of(parent)
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    context = propagator.extract({"traceparent": parent}) if parent else None
    with trace.get_tracer("slackwater").start_as_current_span(name, context=context, attributes=attributes):
        carrier: dict[str, str] = {}
        propagator.inject(carrier)
        yield carrier.get("traceparent") or child_of(parent)
