"""Prints as JSON where the example event appears once its module is in the package of events.

Run by test_an_added_event.py in a process of its own, because events are discovered at import.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slackwater import events

events.__path__.append(str(Path(__file__).parent / "example"))  # as if the file were in the package

import httpx2  # noqa: E402 - all of the product is imported after the event is there
from contracts import generate  # noqa: E402
from prometheus_client import CollectorRegistry, generate_latest  # noqa: E402
from tests.support.bus import MemoryBus  # noqa: E402
from tests.support.clock import FakeClock  # noqa: E402
from tests.support.console.read_model import MemoryReadModel  # noqa: E402

from slackwater.bus.admin.permissions import PartSubjects, service_subjects  # noqa: E402
from slackwater.bus.admin.streams import load  # noqa: E402
from slackwater.bus.codec.cloudevents import decode, encode  # noqa: E402
from slackwater.bus.consume.handlers import Verdicts  # noqa: E402
from slackwater.bus.consume.stats import Counters  # noqa: E402
from slackwater.bus.port import Received  # noqa: E402
from slackwater.cli.broker import registry  # noqa: E402
from slackwater.cli.decision_list import EVENT  # noqa: E402
from slackwater.cli.events import line_of  # noqa: E402
from slackwater.cli.output import table  # noqa: E402
from slackwater.console.edge.events import consumers  # noqa: E402
from slackwater.console.edge.stream import Streams  # noqa: E402
from slackwater.console.metrics import ConsoleMetrics  # noqa: E402
from slackwater.console.service import routers_of  # noqa: E402
from slackwater.console.usecases.record_events import RecordEvents  # noqa: E402
from slackwater.events.envelope import event_of  # noqa: E402
from slackwater.events.registry import EVENTS  # noqa: E402
from slackwater.runtime.http import build_app  # noqa: E402
from slackwater.runtime.settings import HttpSettings  # noqa: E402
from slackwater.telemetry.metrics import Meters  # noqa: E402

NOW = datetime(2026, 1, 5, tzinfo=UTC)
EXAMPLE = next(payload for payload in EVENTS if payload.TYPE == "claim.admitted")
ADMITTED = EXAMPLE.model_validate({"quota": "team-a", "claim": "c1", "position": 3, "admitted_at": NOW})


async def observe() -> dict[str, Any]:
    """Everything that follows from the example, by place."""
    event = event_of(ADMITTED, source="quota", time=NOW, id="e1")
    message = encode(event)
    topology, (services, _) = load(), registry()
    document = generate.asyncapi(generate.flows())
    model, clock, metrics = MemoryReadModel(), FakeClock(NOW), CollectorRegistry()
    record = RecordEvents(model, clock, usage_retention=timedelta(1), decision_retention=timedelta(1))
    (consumer,) = [one for one in consumers(record, ConsoleMetrics(Meters(metrics)), clock) if one.payload is EXAMPLE]
    await Verdicts(consumer.name, consumer.handler, Counters())([Received(event, 0, 1, ADMITTED.key())])
    app = build_app(routers_of(model, Streams(MemoryBus(clock=clock), clock), clock), _no_checks, HttpSettings(port=0))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http:
        items = (await http.get("/v1/events?types=claim.*")).json()["items"]
        page = (await http.get("/events?type=claim.admitted")).text
        openapi = (await http.get("/v1/openapi.json")).text
    return {
        "travels": decode(EXAMPLE, message.headers, message.body).data == ADMITTED,
        "subject": message.subject,
        "stream": topology.streams["DECISIONS"].subjects,
        "consumer": topology.consumers["console-claim-admitted"].event,
        "publisher": service_subjects(PartSubjects("quota", (), ("claim.admitted",)), topology),
        "console": next(service_subjects(part, topology) for part in services if part.name == "console"),
        "channel": document["channels"]["claim.admitted"]["description"],
        "operations": [name for name in document["operations"] if "claim.admitted" in name],
        "schema": generate.schema_of(EXAMPLE),
        "openapi": openapi.count("claim.admitted"),
        "items": items,
        "page": page,
        "stream line": line_of({"type": "claim.admitted", "node": "", "data": json.loads(message.body)}),
        "get line": table(items, EVENT, wide=False, headers=False),
        "metrics": generate_latest(metrics).decode(),
    }


async def _no_checks() -> list[Any]:
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(observe())))
