"""The composition root of prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from slackwater.prediction.adapters.prediction_rows import KeyedPredictionStore
from slackwater.prediction.adapters.predictors.catalogue import Catalogue, refuse_unusable
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.adapters.snapshot_reports import SnapshotReports
from slackwater.prediction.adapters.snapshots import PostgresSnapshots
from slackwater.prediction.edge.events import consumers, windows_reader
from slackwater.prediction.edge.predictor_routes import predictor_router
from slackwater.prediction.metrics import CalibrationMetrics, PredictionMetrics
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.follow_policies import FollowPolicies
from slackwater.prediction.usecases.keep_snapshots import KeepSnapshots
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions
from slackwater.prediction.usecases.partition_holder import PartitionHolder
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce, PredictPolicyHooks
from slackwater.prediction.usecases.publish_due import PublishDue
from slackwater.prediction.usecases.publish_predictions import partition_of_item
from slackwater.resources.change import ChangeResources
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY
from slackwater.runtime.loops import Follow, Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.resource_metrics import ResourceMetrics
from slackwater.runtime.resource_news import ResourceNews, unusable_text
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import process_meters


class PredictionService(ReplicatedService):
    """Folds windows into models and publishes peaks. A new owner of a partition starts from the stored snapshot."""

    def __init__(self, settings: PredictionSettings, platform: Platform) -> None:
        replica = Replica("prediction", platform)
        clock, quarantine = replica.clock, replica.quarantine
        metrics, calibration = PredictionMetrics(process_meters()), CalibrationMetrics(process_meters())
        reports = SnapshotReports(metrics)
        catalogue, documents = Catalogue(), replica.resource_store(PREDICT_POLICY)
        why = "a model is not installed, or a newer version wrote the document"
        meter = ResourceMetrics(process_meters(), replica.name, PREDICT_POLICY.name, why)
        hooks = PredictPolicyHooks(catalogue, settings.first_policy())
        self.policies = policies = PoliciesInForce(documents, hooks, meter)
        """Read `policies.policies` for the present policies, or subscribe with `policies.on_policies`."""
        news, changed = ResourceNews(policies, clock), asyncio.Event()
        replica.partitions.on_news(news.notify)
        policies.on_read(lambda problems: quarantine.follow("policies", problems))
        policies.on_policies(lambda _: changed.set())

        reader = windows_reader(replica.bus, lambda new: metrics.folded(new, shares.series))
        store = KeyedPredictionStore(replica.database, PostgresSnapshots(), quarantine)
        shares = OwnedPartitions(store, settings.policy(model_of), reader, reports.restored, reports.failed, quarantine)
        quarantine.on_release(shares.retry)
        holder, follow = PartitionHolder(shares, calibration), FollowPolicies(shares, policies)
        snapshots = KeepSnapshots(shares, clock, settings.snapshot_seconds, reports.kept)
        publish = PublishDue(shares, clock, calibration)

        change = ChangeResources(PREDICT_POLICY, documents, policies, hooks)
        self.changes = {PREDICT_POLICY: change}

        def checks() -> Sequence[Check]:
            pools = f"{len(policies.policies.pools)} pools with a policy of their own{unusable_text(policies.problems)}"
            return [
                Check("prediction-state", True, f"{shares.series} series"),
                Check("prediction-policies", True, pools),
                Check("prediction-models", True, publish.problems()),
            ]

        super().__init__(
            replica,
            load=[policies.load, follow.begin],
            state=holder,
            consumers=consumers(shares),
            loops={
                "snapshots": Repeat(
                    work=snapshots,
                    clock=clock,
                    seconds=snapshots.pause_seconds,
                    pause_first=True,
                    missed="snapshots are kept later",
                ),
                "predictions": Repeat(
                    work=publish, clock=clock, seconds=publish.pause_seconds, missed="predictions are published later"
                ),
                "documents": news.follow,
                "policies": Follow(work=follow, clock=clock, changed=changed, missed="policies are followed later"),
            },
            close=holder.close,
            checks=checks,
            partition_of_item=partition_of_item,
            routers=lambda: [
                resource_router(change),
                predictor_router(catalogue),
            ],
        )


def build(settings: PredictionSettings, platform: Platform) -> PredictionService:
    """Builds prediction on PostgreSQL and the process's metrics. Raises Misconfigured."""
    refuse_unusable(settings)
    return PredictionService(settings, platform)
