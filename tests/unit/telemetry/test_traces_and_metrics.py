from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.telemetry.metrics import Meters, note_build
from slackwater.telemetry.spans import child_of, configure_tracing, new_traceparent, span, trace_id_of

hexes = st.text("0123456789abcdef", min_size=1)


def test_a_child_stays_in_the_trace_and_is_another_span() -> None:
    root = new_traceparent()
    child = child_of(root)
    assert trace_id_of(child) == trace_id_of(root)
    assert child.split("-")[2] != root.split("-")[2]
    assert child.split("-")[3] == root.split("-")[3] == "01"


def test_the_flag_not_to_sample_is_inherited() -> None:
    assert child_of(new_traceparent()[:-2] + "00").endswith("-00")


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "00-1-2-3",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        f"ff-{'1' * 32}-{'1' * 16}-01",
        f"00-{'A' * 32}-{'1' * 16}-01",
    ],
)
def test_what_is_no_traceparent_starts_a_new_trace(bad: str | None) -> None:
    assert trace_id_of(bad) is None
    assert trace_id_of(child_of(bad)) is not None


@given(st.text())
def test_any_text_gives_a_valid_child(text: str) -> None:
    assert trace_id_of(child_of(text)) is not None


def test_a_span_that_is_not_exported_passes_on_its_parent() -> None:
    root = new_traceparent()
    with span("decide", root) as inner:
        assert inner.traceparent == root
        with span("within") as deeper:
            assert deeper.traceparent == root


def test_tracing_is_off_without_an_endpoint_and_says_what_is_missing_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    assert configure_tracing("agent") is False
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(Misconfigured, match="opentelemetry-exporter-otlp-proto-http"):
        configure_tracing("agent")


def test_asking_twice_gives_the_same_metric() -> None:
    meters = Meters(CollectorRegistry())
    first = meters.counter("slackwater_reports_total", "Reports.", ["reason"])
    assert meters.counter("slackwater_reports_total", "Reports.", ["reason"]) is first
    with pytest.raises(InvalidInput, match="already a Counter"):
        meters.gauge("slackwater_reports_total", "Reports.")


@pytest.mark.parametrize("name", ["reports_total", "slackwater_", "slackwater_Reports_total", "slackwater_reports"])
def test_a_counter_with_another_kind_of_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Meters(CollectorRegistry()).counter(name, "text")


def test_a_label_without_bounds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pod"):
        Meters(CollectorRegistry()).gauge("slackwater_cpu_cores", "text", ["node", "pod"])


def test_the_build_is_a_metric() -> None:
    registry = CollectorRegistry()
    note_build("console", Meters(registry))
    assert b'slackwater_build_info{python="3.' in generate_latest(registry)
