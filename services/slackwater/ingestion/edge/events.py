"""The consumers of ingestion."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from slackwater.bus.columnar import ColumnarReader
from slackwater.bus.port import Bus, Consumption, Done, Holds, Received, Settlement, each
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.tracing import WindowTraces

ON_REPORTED = "ingestion-usage-reported"


@asynccontextmanager
async def consuming(
    bus: Bus, accept: AcceptReports, describe: DescribeNode, traces: WindowTraces, batch: int, holds: Holds
) -> AsyncIterator[Sequence[Consumption]]:
    """Both consumers of contracts/streams.yaml while the context is open, reading nothing yet."""

    async def accept_and_note(reports: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        verdicts = await accept(reports)
        pairs = zip(reports, verdicts, strict=True)
        traces.note(received.event for received, verdict in pairs if isinstance(verdict, Done))
        return verdicts

    read = ColumnarReader()
    async with (
        bus.consume(NodeDescribed, "ingestion-node-described", each(describe), holds=holds) as descriptions,
        bus.consume(UsageReported, ON_REPORTED, accept_and_note, batch=batch, holds=holds, read=read) as reports,
    ):
        yield descriptions, reports
