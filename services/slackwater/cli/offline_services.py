"""Every service built as `up` builds it, without a connection: for facts that the code alone determines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.metrics import AgentMetrics
from slackwater.bus.codec.lost_values import LostValues
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.cli.composition import IN_CLUSTERS, SHARED, ServicePart
from slackwater.cli.service_host import Databases
from slackwater.model.time import SystemClock
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.limited_readings import LimitedMetrics
from slackwater.runtime.loop_watch import WatchMetrics
from slackwater.runtime.platform import Platform
from slackwater.runtime.resource_metrics import KindMetrics
from slackwater.runtime.rpc_metrics import RpcMetrics
from slackwater.runtime.service import Service
from slackwater.runtime.supervisor import Supervisor
from slackwater.store.metrics import OutboxMetrics
from slackwater.telemetry.metrics import MetricDescription, note_build, process_meters


def offline_services() -> Sequence[Service]:
    """The services that `up` runs, for their routes and metrics. Opens nothing: databases and bus connect on first
    use.
    """
    return _built(SHARED)


def _built(parts: Sequence[ServicePart]) -> Sequence[Service]:
    nowhere = Databases({part.name: "postgresql://127.0.0.1/none" for part in parts})
    platform = Platform(LateBus(), SystemClock(), nowhere.of, Path())
    return [part.build(platform) for part in parts]


def every_metric() -> Sequence[MetricDescription]:
    """All metrics that a process can expose, by name."""
    meters = process_meters()
    for service in _built((*SHARED, *IN_CLUSTERS)):
        note_build(service.name)
    Supervisor(())
    of_bus = (BusMetrics, LostValues, UnreadSubjects)
    of_libraries = (*of_bus, OutboxMetrics, WatchMetrics, LimitedMetrics, HttpMetrics, RpcMetrics, KindMetrics)
    for kind in (*of_libraries, AgentMetrics):
        kind(meters)
    return meters.described()
