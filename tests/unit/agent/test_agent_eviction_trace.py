"""The trace of an eviction: from the command through the end of the pod to the completion, over a restart as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_fakes import pod
from agent_world import FATES, World, eviction
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.telemetry.spans import is_sampled, new_traceparent, span_id_of, trace_id_of


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"))
    return found


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in exporter.get_finished_spans() if one.name == name]


def id_of(one: ReadableSpan) -> str:
    assert one.context is not None
    return f"{one.context.span_id:016x}"


@pytest.mark.parametrize(("prepare", "outcome"), FATES)
async def test_a_completion_goes_on_from_the_command_whatever_became_of_it(
    world: World, exporter: InMemorySpanExporter, prepare: Any, outcome: str
) -> None:
    command = new_traceparent()
    prepare(world)
    async with world.running():
        await world.declare(traceparent=command, evictions=[eviction(world, "a")])
        await world.clock.advance(30)
        [told] = world.events(EvictionCompleted)
    [converge], [evict] = named(exporter, "agent converge"), named(exporter, "agent evict")
    assert told.data.outcome == outcome
    assert evict.parent is not None
    assert f"{evict.parent.span_id:016x}" == id_of(converge)
    assert (trace_id_of(told.traceparent), span_id_of(told.traceparent)) == (trace_id_of(command), id_of(evict))
    assert (
        dict(evict.attributes or {}).items() >= {"slackwater.decision_id": "d", "slackwater.outcome": outcome}.items()
    )
    assert (evict.status.status_code is StatusCode.ERROR) is (outcome == "failed")


async def test_without_an_exporter_the_completion_is_in_the_trace_of_the_command_all_the_same(world: World) -> None:
    command = new_traceparent()
    async with world.running():
        await world.declare(traceparent=command, evictions=[eviction(world, "a")])
        await world.clock.advance(1)
        [told] = world.events(EvictionCompleted)
    assert told.traceparent == command


async def test_a_restart_in_the_middle_does_not_end_the_trace(
    world: World, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    ledger, command = JsonLedger(tmp_path / "evictions.json"), new_traceparent()
    world.driver.stubborn.add("a")
    for told in (0, 1):
        service = world.service()
        service.ledger = ledger
        async with world.running(service):
            if not told:
                await world.declare(traceparent=command, evictions=[eviction(world, "a", grace=5)])
            await world.clock.advance(2 + 10 * told)
            assert len(world.events(EvictionCompleted)) == told
    [completed] = world.events(EvictionCompleted)
    cut, whole = named(exporter, "agent evict")
    assert trace_id_of(completed.traceparent) == trace_id_of(command)
    assert span_id_of(completed.traceparent) == id_of(whole)
    assert cut.parent is not None
    assert whole.parent is not None
    assert cut.parent.span_id == whole.parent.span_id


async def test_a_ledger_from_before_has_no_trace_and_begins_none_that_is_exported(
    world: World, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    file = tmp_path / "evictions.json"
    file.write_text(
        '[{"id": "e1", "pod_uid": "a", "writer": "w", "decision_id": "d", "deadline": "2030-01-01T00:00:00+00:00",'
        ' "grace_seconds": 5.0, "started_at": "2026-01-01T00:00:00+00:00", "cause": "c", "outcome": null,'
        ' "detail": "", "completed_at": null, "published": false}]'
    )
    service = world.service()
    service.ledger = JsonLedger(file)
    async with world.running(service):
        await world.clock.advance(1)
        [told] = world.events(EvictionCompleted)
    assert named(exporter, "agent evict") == []
    assert trace_id_of(told.traceparent) is not None
    assert not is_sampled(told.traceparent)
