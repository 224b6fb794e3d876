"""What no event tells: backlogs, pools, and whether the servers answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from slackwater.bus.admin.backlogs import Backlogs, Fill, Lag
from slackwater.model.errors import Unavailable
from slackwater.runtime.loop_watch import LOOK_SECONDS, LoopWatch
from slackwater.store.engine import Connections
from slackwater.store.port import Backlog
from slackwater.telemetry.metrics import Meters
from slackwater.testing.clock import FakeClock


@dataclass
class Servers:
    """Bus and one database at once."""

    away: bool = False
    outbox: Backlog | None = field(default_factory=lambda: Backlog(3, 1.5, 2))
    looks: int = 0

    async def backlogs(self) -> Backlogs:
        self.looks += 1
        if self.away:
            raise Unavailable("no broker")
        return Backlogs({"c": Lag(5, 2)}, {"DLQ": Fill(1, 100, 1000)})

    async def backlog(self) -> Backlog | None:
        if self.away:
            raise Unavailable("no PostgreSQL")
        return self.outbox

    def connections(self) -> Connections:
        return Connections(1, 2)


async def test_what_is_found_is_shown_and_what_is_away_is_said_to_be() -> None:
    registry, servers = CollectorRegistry(), Servers()
    watch = LoopWatch(servers, lambda: {"ensurance": servers}, FakeClock(), Meters(registry))
    await watch.check()

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"slackwater_{name}", labels)

    assert shown("bus_up") == shown("database_up", service="ensurance") == 1
    assert shown("bus_lag_messages", consumer="c") == 5
    assert shown("bus_unsettled_messages", consumer="c") == 2
    assert shown("stream_kept_messages", stream="DLQ") == 1
    assert (shown("stream_stored_bytes", stream="DLQ"), shown("stream_limit_bytes", stream="DLQ")) == (100, 1000)
    assert shown("outbox_waiting_events", service="ensurance") == 3
    assert shown("outbox_age_seconds", service="ensurance") == 1.5
    assert shown("outbox_refused_events", service="ensurance") == 2
    assert shown("database_pool_connections", service="ensurance", state="in_use") == 1
    servers.away = True
    await watch.check()
    assert shown("bus_up") == shown("database_up", service="ensurance") == 0


async def test_a_service_without_an_outbox_has_none_to_show() -> None:
    registry, servers = CollectorRegistry(), Servers(outbox=None)
    await LoopWatch(servers, lambda: {"console": servers}, FakeClock(), Meters(registry)).check()
    assert registry.get_sample_value("slackwater_outbox_waiting_events", {"service": "console"}) is None
    assert registry.get_sample_value("slackwater_database_up", {"service": "console"}) == 1


def test_it_looks_more_often_than_alerts_ask() -> None:
    assert LOOK_SECONDS <= 15
