"""Spans with the SDK: parents, flags, failures; and what handlers of the bus make of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.support.clock import EPOCH
from tests.support.reports import report

from slackwater.agent.domain.tracing import TraceBudget
from slackwater.bus.consume.handler_spans import traced_batch, traced_each
from slackwater.bus.consume.handlers import each
from slackwater.bus.port import Done, Received, Reject, Retry, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.telemetry.spans import (
    is_sampled,
    new_traceparent,
    root_span,
    sampled,
    span,
    span_id_of,
    step_of_current,
    trace_id_of,
)

QUIET = new_traceparent(sampled=False)


def received(sequence: int, traceparent: str | None) -> Received[UsageReported]:
    data = report("n1", sequence, EPOCH)
    return Received(event_of(data, source="t", time=EPOCH, traceparent=traceparent), sequence, 1, "n1")


def parent_id(found: ReadableSpan) -> str | None:
    return None if found.parent is None else f"{found.parent.span_id:016x}"


def test_steps_are_children_and_end_with_their_block(exporter: InMemorySpanExporter) -> None:
    with root_span("agent report", {"node": "n1", "pods": None}, exported=True) as root:
        pass
    with span("outer", root.traceparent, kind="consumer") as outer, span("inner") as inner:
        assert span_id_of(inner.traceparent) != span_id_of(outer.traceparent)
    first, second, third = exporter.get_finished_spans()
    assert [one.name for one in (first, second, third)] == ["agent report", "inner", "outer"]
    assert first.parent is None
    assert parent_id(third) == span_id_of(root.traceparent)
    assert parent_id(second) == span_id_of(outer.traceparent)
    assert dict(first.attributes or {}) == {"slackwater.node": "n1"}


def test_what_began_unsampled_is_never_exported(exporter: InMemorySpanExporter) -> None:
    with root_span("agent report", exported=False) as root, span("inner", root.traceparent) as inner:
        assert not is_sampled(root.traceparent)
        assert inner.traceparent == root.traceparent
    assert exporter.get_finished_spans() == ()


def test_a_decision_is_exported_even_if_its_report_was_not(exporter: InMemorySpanExporter) -> None:
    with span("ensurance decide", sampled(QUIET)) as step:
        assert trace_id_of(step.traceparent) == trace_id_of(QUIET)
        assert is_sampled(step.traceparent)
    assert [one.name for one in exporter.get_finished_spans()] == ["ensurance decide"]


def test_a_failure_is_the_status_of_its_span(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(ZeroDivisionError), span("decide", new_traceparent()):
        raise ZeroDivisionError("deliberate")
    assert exporter.get_finished_spans()[0].status.status_code is StatusCode.ERROR
    assert "deliberate" in (exporter.get_finished_spans()[0].status.description or "")


def test_outside_of_any_step_there_is_no_step_within(exporter: InMemorySpanExporter) -> None:
    with step_of_current("agent actuate") as nothing:
        nothing.note({"done": 1})
        nothing.failed("ignored")
    assert exporter.get_finished_spans() == ()


async def test_each_message_gets_its_own_span_and_verdict(exporter: InMemorySpanExporter) -> None:
    seen: list[str | None] = []

    async def handle(one: Received[UsageReported]) -> Settlement | None:
        seen.append(one.event.traceparent)
        return Reject("bad", "detail") if one.stream_sequence == 2 else None

    parents = [new_traceparent(), new_traceparent(), QUIET]
    verdicts = await traced_each("ensurance-usage-reported", each(handle).judge)(
        [received(n, p) for n, p in enumerate(parents, 1)]
    )
    assert verdicts == [Done(), Reject("bad", "detail"), Done()]
    good, bad = exporter.get_finished_spans()
    assert (parent_id(good), parent_id(bad)) == (span_id_of(parents[0]), span_id_of(parents[1]))
    assert (good.status.status_code, bad.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert [span_id_of(one) for one in seen[:2]] == [f"{one.context.span_id:016x}" for one in (good, bad)]
    assert seen[2] == QUIET
    assert (good.attributes or {})["slackwater.batch_size"] == 3


async def test_a_batch_handler_gets_a_span_per_sampled_message_only(exporter: InMemorySpanExporter) -> None:
    async def handle(batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        assert batch[0].event.traceparent == QUIET
        assert trace_id_of(batch[1].event.traceparent) == trace_id_of(parent)
        return [Done(), Retry("away")]

    parent = new_traceparent()
    await traced_batch("ingestion-usage-reported", handle)([received(1, QUIET), received(2, parent)])
    (only,) = exporter.get_finished_spans()
    assert only.name == "handle ingestion-usage-reported"
    assert (parent_id(only), only.status.description) == (span_id_of(parent), "retry: away")


async def test_a_handler_that_raises_fails_the_spans_of_its_batch(exporter: InMemorySpanExporter) -> None:
    async def handle(batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        raise ZeroDivisionError("deliberate")

    with pytest.raises(ZeroDivisionError):
        await traced_batch("ingestion-usage-reported", handle)([received(1, new_traceparent())])
    assert exporter.get_finished_spans()[0].status.status_code is StatusCode.ERROR


def test_the_budget_grants_one_report_per_pause_and_urgent_ones_apart() -> None:
    budget = TraceBudget(seconds=60, urgent_seconds=5)
    granted = [at for at in range(0, 121, 1) if budget.grant(False, at)]
    assert granted == [0, 60, 120]
    assert [at for at in range(12) if budget.grant(True, at)] == [0, 5, 10]
    every = TraceBudget(seconds=0, urgent_seconds=0)
    assert all(every.grant(urgent, 1.0) for urgent in (False, True, False))


def test_a_window_goes_on_with_the_first_sampled_report_in_it() -> None:
    traces = WindowTraces(seconds=60)
    chosen, later = new_traceparent(), new_traceparent()
    traces.note(received(n, parent).event for n, parent in enumerate([QUIET, chosen, later], 1))
    begin = EPOCH.replace(second=0)
    middle = EPOCH.timestamp() - 2.5
    start = EPOCH.fromtimestamp(middle // 60 * 60, tz=EPOCH.tzinfo)
    assert traces.pop("n1", start) == chosen
    assert traces.pop("n1", start) is None
    assert traces.pop("n2", begin) is None
