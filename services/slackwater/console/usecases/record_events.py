"""Records events in batches: one write per batch.

Each method takes events in delivery order. All writes are upserts, so that a batch may be redelivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from slackwater.console.ports import Writes
from slackwater.console.usecases import translate
from slackwater.decisions.record import AGENT
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.health_reported import HealthReported
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed, report_of
from slackwater.model.time import Clock

FUTURE_TOLERANCE = timedelta(seconds=60)
"""Ingestion rejects a report dated later than this; recording it would pin the node's latest usage to it."""


class RecordEvents:
    """Writes the read model, and prunes it periodically as part of a write (it does nothing while idle)."""

    def __init__(
        self,
        writes: Writes,
        clock: Clock,
        *,
        usage_retention: timedelta,
        decision_retention: timedelta,
        prune_every_seconds: float = 600.0,
    ) -> None:
        self._writes = writes
        self._clock = clock
        self._usage_retention = usage_retention
        self._decision_retention = decision_retention
        self._prune_every = prune_every_seconds
        self._pruned_at = clock.monotonic()

    async def described(self, events: Sequence[Event[NodeDescribed]]) -> None:
        await self._writes.save_facts([(e.data.facts, e.data.boot_epoch, e.data.described_at) for e in events])

    async def liveness_changed(self, events: Sequence[Event[NodeLivenessChanged]]) -> None:
        await self._writes.save_liveness([(e.data.node, str(e.data.liveness), e.data.changed_at) for e in events])
        duplicates = [(e.data.node, translate.duplicate_condition(e.data)) for e in events]
        await self._writes.save_conditions([(node, one) for node, one in duplicates if one is not None])

    async def node_deleted(self, events: Sequence[Event[NodeDeleted]]) -> None:
        await self._writes.delete_nodes([(e.data.node, e.data.deleted_at) for e in events])

    async def scheduling_changed(self, events: Sequence[Event[NodeSchedulingChanged]]) -> None:
        await self._writes.save_conditions([(e.data.node, translate.scheduling_condition(e.data)) for e in events])

    async def usage_reported(self, events: Sequence[Event[UsageReported]]) -> None:
        latest = self._clock.now() + FUTURE_TOLERANCE
        taken = [e for e in events if e.data.sampled_at <= latest]
        await self._writes.save_usage([(translate.usage_point(e), translate.pod_views(e.data)) for e in taken])
        lacking = [(e.data.node, translate.left_out_condition(e.data)) for e in taken if e.data.left_out]
        if lacking:
            await self._writes.save_conditions([(node, one) for node, one in lacking if one is not None])
        await self._prune_when_due()

    async def waterline_crossed(self, events: Sequence[Event[WaterlineCrossed]]) -> None:
        """The same reports on their urgent path, under the same ids: the first to arrive is stored."""
        await self.usage_reported([report_of(event) for event in events])

    async def peak_predicted(self, events: Sequence[Event[PeakPredicted]]) -> None:
        await self._writes.save_forecasts([translate.forecast_view(e) for e in events])

    async def resources_offered(self, events: Sequence[Event[ResourcesOffered]]) -> None:
        await self._writes.save_offers([translate.offer_view(e) for e in events])

    async def decision_recorded(self, events: Sequence[Event[DecisionRecorded]]) -> None:
        await self._writes.save_decisions([e.data.record for e in events])

    async def agent_decided(self, events: Sequence[Event[AgentDecisionRecorded]]) -> None:
        """What an agent says of a decision is said by an agent, whatever service its record names."""
        await self._writes.save_decisions([e.data.record.model_copy(update={"service": AGENT}) for e in events])

    async def effect_measured(self, events: Sequence[Event[EffectMeasured]]) -> None:
        await self._writes.save_effects([translate.effect_view(e) for e in events])

    async def intent_observed(self, events: Sequence[Event[IntentObserved]]) -> None:
        await self._writes.save_observations([translate.observation_view(e) for e in events])

    async def eviction_completed(self, events: Sequence[Event[EvictionCompleted]]) -> None:
        await self._writes.save_evictions([translate.eviction_view(e) for e in events])

    async def usage_windowed(self, events: Sequence[Event[UsageWindowed]]) -> None:
        await self._writes.save_windows([translate.window_view(e) for e in events])

    async def strategy_followed(self, events: Sequence[Event[StrategyFollowed]]) -> None:
        await self._writes.save_strategies([translate.strategy_view(e) for e in events])

    async def listed(self, events: Sequence[Event[Any]]) -> None:
        """Any events with LISTED."""
        await self._writes.save_events([translate.listed_event(event) for event in events])

    async def resource_changed(self, events: Sequence[Event[ResourceChanged]]) -> None:
        await self._writes.save_resources([translate.resource_view(e) for e in events])

    async def quota_accounted(self, events: Sequence[Event[QuotaAccounted]]) -> None:
        await self._writes.save_quota_ledgers([e.data for e in events])

    async def migration_changed(self, events: Sequence[Event[MigrationChanged]]) -> None:
        await self._writes.save_moves([e.data for e in events])

    async def health_reported(self, events: Sequence[Event[HealthReported]]) -> None:
        await self._writes.save_processes([translate.process_view(e) for e in events])

    async def _prune_when_due(self) -> None:
        if self._clock.monotonic() - self._pruned_at < self._prune_every:
            return
        self._pruned_at = self._clock.monotonic()
        now = self._clock.now()
        await self._writes.prune(now - self._usage_retention, now - self._decision_retention)
