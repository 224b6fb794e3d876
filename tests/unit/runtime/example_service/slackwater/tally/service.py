"""The composition root of tally."""

from __future__ import annotations

from slackwater.runtime.loops import Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check
from slackwater.tally.edge.events import consumers
from slackwater.tally.edge.http import tally_router
from slackwater.tally.settings import TallySettings
from slackwater.tally.usecases.count_nodes import CountNodes


def build(settings: TallySettings, platform: Platform) -> ReplicatedService:
    """Tally, with its count in memory."""
    replica = Replica("tally", platform)
    count = CountNodes(replica.clock, settings.forget_seconds)
    return ReplicatedService(
        replica,
        state=count,
        consumers=consumers(count),
        loops={"forget": Repeat(work=count.forget, clock=replica.clock, seconds=60.0, missed="nodes are kept")},
        checks=lambda: [Check("tally-pools", True, f"{len(count.counts())} pools")],
        routers=lambda: [tally_router(count)],
    )
