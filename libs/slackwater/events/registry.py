"""All events in the order of the control loop, and the messages without a stream. The JSON Schemas, AsyncAPI and the
flow diagram are generated from these lists."""

from __future__ import annotations

from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import BroadcastPayload, Payload
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

TOLD: tuple[type[BroadcastPayload], ...] = (LeaseRenewed,)
"""Messages without a stream: core NATS subscribers receive them; they have no consumers, dead letters or history."""

STREAMED: tuple[type[Payload], ...] = (StrategyChecked, StateQuarantined)
"""Events that no service consumes; operators and programs read them from the stream (`slackwater events`)."""

COMMANDS: tuple[type[Payload], ...] = (IntentDeclared,)
"""Events that command a node. Only the declaring service may publish them and only agents act on them. Agents have no
dead letters, so that these events are never replayed from there."""

FROM_AGENTS: tuple[type[Payload], ...] = (
    NodeDescribed,
    UsageReported,
    WaterlineCrossed,
    IntentObserved,
    EvictionCompleted,
    DecisionRecorded,
)
"""Events that agents publish about their own node; the node in the subject is the sender. A block stops them."""

RECORDED_BY_SERVICES_TOO: tuple[type[Payload], ...] = (DecisionRecorded,)
"""Members of FROM_AGENTS that services publish on the same subjects. A block does not stop events that a service
publishes about the node."""

RECORDERS = frozenset({"prediction", "colocation", "ensurance"})
"""The services, as `ce-source` names them, that publish RECORDED_BY_SERVICES_TOO."""
