"""Keeps spans in memory instead of sending them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from slackwater.telemetry.spans import tracing_to


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Receives all spans while the test runs."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with tracing_to(provider):
        yield spans
