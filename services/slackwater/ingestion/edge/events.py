"""The consumers of ingestion."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from slackwater.bus.port import Bus, Consumption, Holds, each
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode


@asynccontextmanager
async def consuming(
    bus: Bus, accept: AcceptReports, describe: DescribeNode, batch: int, holds: Holds
) -> AsyncIterator[Sequence[Consumption]]:
    """Both consumers of contracts/streams.yaml while the context is open, reading nothing yet."""
    async with (
        bus.consume(NodeDescribed, "ingestion-node-described", each(describe), holds=holds) as descriptions,
        bus.consume(UsageReported, "ingestion-usage-reported", accept, batch=batch, holds=holds) as reports,
    ):
        yield descriptions, reports
