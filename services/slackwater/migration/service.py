"""The composition root of migration."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from slackwater.migration.adapters.migration_rows import KeyedMigrationStore
from slackwater.migration.edge.cluster_watch import SightWatch
from slackwater.migration.edge.events import consumers
from slackwater.migration.metrics import MigrationMetrics
from slackwater.migration.settings import MigrationSettings
from slackwater.migration.usecases.arbitration_documents import ArbitrationArgsHooks
from slackwater.migration.usecases.asked_documents import AskedDocuments
from slackwater.migration.usecases.cluster_sight import ClusterSight
from slackwater.migration.usecases.drop_ended import DropEnded
from slackwater.migration.usecases.job_board import JobBoard
from slackwater.migration.usecases.job_documents import MigrationJobHooks
from slackwater.migration.usecases.move_pods import MovePods
from slackwater.migration.usecases.propose_moves import ProposeMoves
from slackwater.migration.usecases.reservation_documents import ReservationHooks
from slackwater.resources.kinds.arbitration_args import ARBITRATION_ARGS
from slackwater.resources.kinds.pod_migration_job import POD_MIGRATION_JOB
from slackwater.resources.kinds.reservation import RESERVATION
from slackwater.runtime.loops import Follow, Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check, RpcPart
from slackwater.telemetry.metrics import process_meters

DROP_SECONDS = 300.0


class MigrationService(ReplicatedService):
    """Moves pods. Any replica serves documents and keeps answers; the owner of one partition decides."""

    def __init__(self, settings: MigrationSettings, platform: Platform) -> None:
        replica = Replica("migration", platform)
        clock, meter = replica.clock, MigrationMetrics(process_meters())
        store = KeyedMigrationStore(replica.unfenced, replica.quarantine)
        jobs = replica.serve(POD_MIGRATION_JOB, MigrationJobHooks(store, clock))
        reservations = replica.serve(RESERVATION, ReservationHooks(store))
        args = replica.serve(ARBITRATION_ARGS, ArbitrationArgsHooks())
        self.changes = {served.kind: served.changes() for served in (jobs, reservations, args)}
        shares = {"cpu": settings.cpu_headroom_share, "memory": settings.memory_headroom_share}
        answered = asyncio.Event()
        self.sight = sight = ClusterSight(clock, shares, answered.set)
        self.jobs, self.board = jobs.changes(), JobBoard(store)
        asked = AskedDocuments(jobs, reservations, args, clock)
        self.moves = moves = MovePods(
            store, sight, asked, clock, meter, replica.partitions.working, settings.grace_seconds, answered
        )
        ended = DropEnded(moves, jobs.changes(), store, clock, settings.keep_ended_seconds)
        repeat = partial(Repeat, clock=clock)

        super().__init__(
            replica,
            consumers=consumers(store, ProposeMoves(store, clock), clock, moves.note_eviction),
            loops={
                "cluster": SightWatch(replica.bus, sight),
                "rounds": repeat(work=moves, seconds=settings.round_seconds, missed="moves go on later"),
                "answers": Follow(work=moves, clock=clock, changed=answered, missed="moves go on later"),
                "ended": repeat(work=ended, seconds=DROP_SECONDS, pause_first=True, missed="ended jobs are kept"),
            },
            checks=lambda: [Check("migration-cluster", True, "known" if sight.is_known else "is being read")],
        )

    def rpc_parts(self) -> Sequence[RpcPart]:
        """slackwater.runtime.service.SpeaksRpc."""
        from slackwater.migration.edge.rpc import rpc_part  # imports grpc

        return [rpc_part(self.jobs, self.board)]


def build(settings: MigrationSettings, platform: Platform) -> MigrationService:
    """Migration on PostgreSQL and the process's metrics."""
    return MigrationService(settings, platform)
