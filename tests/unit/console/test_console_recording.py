"""Recording: translation, what is refused, pruning; and settlement when the database is away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.bus.admin.streams import load
from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received, Reject, Retry
from slackwater.console import CONSUMES
from slackwater.console.edge.events import recording, routes
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable


def reports(clock: FakeClock) -> list[Event[Any]]:
    return [event for event in story(clock.now()) if isinstance(event.data, UsageReported)]


def received(events: list[Event[Any]]) -> list[Received[Any]]:
    return [Received(event, 0, 1, event.data.key()) for event in events]


def test_every_event_that_is_consumed_has_a_route(record: RecordEvents) -> None:
    consumed = load().consumed("console", CONSUMES)
    assert {payload.TYPE for payload in routes(record)} == set(consumed) - {
        "agent.block_changed",
        "pods.rostered",
    }  # the bus reads these


async def test_a_batch_that_comes_again_changes_nothing(
    record: RecordEvents, model: MemoryReadModel, clock: FakeClock
) -> None:
    events = reports(clock)[-50:]
    await record.usage_reported(events)
    before = (await model.counts(), await model.nodes(), await model.pods())
    await record.usage_reported(list(reversed(events)))
    assert (await model.counts(), await model.nodes(), await model.pods()) == before


async def test_a_report_from_the_future_is_left_out(
    record: RecordEvents, model: MemoryReadModel, clock: FakeClock
) -> None:
    event = reports(clock)[0]
    late = event.data.model_copy(update={"sampled_at": clock.now() + timedelta(hours=1)})
    await record.usage_reported([event.model_copy(update={"data": late})])
    assert (await model.counts()).reports == 0


async def test_a_decision_that_an_agent_records_is_an_agents_whatever_it_says(
    record: RecordEvents, model: MemoryReadModel, clock: FakeClock
) -> None:
    decided = next(event for event in story(clock.now()) if isinstance(event.data, DecisionRecorded))
    said = AgentDecisionRecorded(record=decided.data.record)
    await routes(record)[AgentDecisionRecorded]([event_of(said, source="agent/n", time=clock.now())])
    stored = await model.decision(said.record.id)
    assert (said.record.service, stored and stored.service) == ("prediction", "agent")
    await record.decision_recorded([decided])
    assert await model.decision(said.record.id) == decided.data.record


async def test_pressure_that_cannot_be_is_unknown(
    record: RecordEvents, model: MemoryReadModel, clock: FakeClock
) -> None:
    event = reports(clock)[0]
    for value in (float("nan"), float("inf"), -0.1, 1.2):
        pressure = replace(event.data.prod_pressure, cpu_some_avg=value)
        data = event.data.model_copy(update={"prod_pressure": pressure})
        await record.usage_reported([event.model_copy(update={"id": str(value), "data": data})])
        found = await model.event(str(value))
        assert found is not None
        assert found.prod_pressure is None  # type: ignore[union-attr]  # only reports were recorded


async def test_old_rows_go_with_a_write_once_the_time_has_come(model: MemoryReadModel, clock: FakeClock) -> None:
    hour, quarter = timedelta(hours=1), timedelta(minutes=15)
    recorder = RecordEvents(model, clock, usage_retention=hour, decision_retention=hour, prune_every_seconds=600)
    old = reports(clock)
    await recorder.usage_reported(old)
    await clock.advance((hour + quarter).total_seconds())
    fresh = [reports(clock)[-1].model_copy(update={"id": "fresh"})]
    await recorder.usage_reported(fresh)
    assert (await model.counts()).reports == len(fresh)


async def test_a_database_that_is_away_means_again_later_for_the_recording(clock: FakeClock) -> None:
    async def away(events: object) -> None:
        raise Unavailable("PostgreSQL does not answer")

    async def there(events: object) -> None:
        return None

    told: list[object] = []
    batch = received(reports(clock)[:3])
    handlers = [Verdicts("c", recording(record, told.append), Counters()) for record in (away, there)]
    assert await handlers[0](batch) == [Retry("PostgreSQL does not answer", away=True, outage=True)] * 3
    assert await handlers[1](batch) == [Done()] * 3
    assert told == [[one.event for one in batch]]


async def test_a_batch_that_fails_after_its_write_is_recorded_once(
    record: RecordEvents, model: MemoryReadModel, clock: FakeClock
) -> None:
    events = reports(clock)[-20:]
    bad = events[-5]

    async def write(batch: Sequence[Event[Any]]) -> None:
        await record.usage_reported([event for event in batch if event is not bad])
        if bad in batch:
            raise OverflowError("defect after the write")

    handler = Verdicts("console-usage-reported", recording(write, lambda _: None), Counters())
    verdicts = await handler(received(events))
    counts, pods = await model.counts(), await model.pods()
    assert [isinstance(verdict, Reject) for verdict in verdicts] == [event is bad for event in events]
    await record.usage_reported([event for event in events if event is not bad])
    assert (await model.counts(), await model.pods()) == (counts, pods)
