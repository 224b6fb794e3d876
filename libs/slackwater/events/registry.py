"""Every event there is, in the order of the loop, and what is only told. Schemas, AsyncAPI and the flow picture are
made from these lists."""

from __future__ import annotations

from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Payload, Told
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.health_reported import HealthReported
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.state_quarantined import StateQuarantined
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed

EVENTS: tuple[type[Payload], ...] = (
    NodeDescribed,
    UsageReported,
    WaterlineCrossed,
    NodeLivenessChanged,
    UsageWindowed,
    PeakPredicted,
    ResourcesOffered,
    StrategyChecked,
    StrategyFollowed,
    IntentDeclared,
    IntentObserved,
    EvictionCompleted,
    EffectMeasured,
    NodeSchedulingChanged,
    DecisionRecorded,
    AgentBlockChanged,
    HealthReported,
    StateQuarantined,
)

TOLD: tuple[type[Told], ...] = (LeaseRenewed,)
"""What no stream keeps: it has no consumers, no dead letters and no history, and who listens hears it."""

STREAMED: tuple[type[Payload], ...] = (StrategyChecked, StateQuarantined)
"""What no service acts on or keeps: people and programs read it from the stream (`slackwater events`)."""

COMMANDS: tuple[type[Payload], ...] = (IntentDeclared,)
"""What tells a node to do something. Only who declares it may publish it; nobody but the agents acts on it, and they
have no dead letters, so it is never put back either."""

FROM_AGENTS: tuple[type[Payload], ...] = (
    NodeDescribed,
    UsageReported,
    WaterlineCrossed,
    IntentObserved,
    EvictionCompleted,
    DecisionRecorded,
)
"""What agents publish, each about its own node: the node in the subject is the sender. A block stops these."""

RECORDED_BY_SERVICES_TOO: tuple[type[Payload], ...] = (DecisionRecorded,)
"""Of FROM_AGENTS those that services publish too, on the same subjects. A block never stops what a service publishes
about the node."""

RECORDERS = frozenset({"prediction", "colocation", "ensurance"})
"""The services, as `ce-source` names them, that publish RECORDED_BY_SERVICES_TOO."""
