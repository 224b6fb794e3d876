"""The event consumers of ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.bus.consume.handlers import Consumer, Holding, each
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.model.time import Clock

ON_DESCRIBED, ON_REPORTED = "ingestion-node-described", "ingestion-usage-reported"


def accepting(accept: AcceptReports, traces: WindowTraces, clock: Clock) -> Holding[UsageReported]:
    """Returns the batch handler of reports. It records the trace of accepted reports for their windows."""

    async def handle(reports: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        verdicts = await accept(reports)
        pairs = zip(reports, verdicts, strict=True)
        traces.note(received.event for received, verdict in pairs if isinstance(verdict, Done))
        return verdicts

    return Holding(handle, clock)


def consumers(describe: DescribeNode, reports: Holding[UsageReported], batch: int) -> Sequence[Consumer[Any]]:
    """Returns the consumers. Descriptions come before reports, so that nodes are known when their reports arrive."""
    return (
        Consumer(NodeDescribed, ON_DESCRIBED, each(describe)),
        Consumer(UsageReported, ON_REPORTED, reports, batch=batch),
    )
