"""Settings of ensurance, e.g. SLACKWATER_ENSURANCE_MODE. Those of the policy make the first document only."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.decisions.record_budget import RecordBudget
from slackwater.resources.metadata import Metadata
from slackwater.resources.names import CLUSTER
from slackwater.waterline.nodeqos import ClusterRuleSpec, NodeQos, NodeQosSpec, ThrottleSpec
from slackwater.waterline.policies.rules import MetricRuleSpec


class EnsuranceSettings(BaseSettings):
    """Seconds and ratios (0..1). After the first start the policy is changed with PUT /v1/nodeqos/default."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_ENSURANCE_", frozen=True)

    mode: Literal["observe", "throttle", "evict"] = "throttle"
    weights: Literal["by-request", "by-tier", "by-tier-idle"] = "by-tier-idle"
    metric: Literal["prod_cpu_pressure", "node_cpu_usage_ratio"] = "prod_cpu_pressure"
    waterline: float = Field(default=0.10, gt=0, le=1)
    avoidance_threshold: int = Field(default=1, ge=1)
    restore_threshold: int = Field(default=2, ge=1)
    cool_down_seconds: float = Field(default=3.0, ge=0)
    quota_after_seconds: float = Field(default=30.0, ge=0)
    """How long prod's CPU pressure stays above the waterline, although CPU weights are in force, before batch gets a
    quota. 0: at once."""

    lease_seconds: float = Field(default=15.0, gt=0, le=86400)
    """Lease of intents: without a renewal for this long, agents restore throttles and act in disconnected mode. Leases
    of a partition are renewed together, three times per lease."""
    max_report_age_seconds: float = Field(default=10.0, gt=0)
    """Samples that are older, or this far in the future, never cause an action."""
    closing_seconds: float = Field(default=120.0, gt=0)
    """A cordon expires unless it is renewed within this time."""
    silent_seconds: float = Field(default=60.0, gt=0)
    """After this long without a usable report the lease of a node ends and its agent acts in disconnected mode. No pod
    is throttled without readings."""
    record_burst_bytes: int = Field(default=131_072, ge=0)
    """Decision records of a node, with their effects, that may be published at once after a calm time."""
    record_bytes_per_hour: int = Field(default=3_500, ge=0)
    """What is refilled per hour. Beyond it decisions are recorded in a compact form, then listed in a later record."""

    @property
    def record_budget(self) -> RecordBudget:
        return RecordBudget(self.record_burst_bytes, self.record_bytes_per_hour)

    def first_policy(self) -> NodeQos:
        """The document that is stored at the first start."""
        rule = ClusterRuleSpec(
            name="prod-cpu",
            metric_rule=MetricRuleSpec(name=self.metric, value=self.waterline),
            avoidance_threshold=self.avoidance_threshold,
            restore_threshold=self.restore_threshold,
            cool_down_seconds=self.cool_down_seconds,
        )
        throttle = ThrottleSpec(quota_after_seconds=self.quota_after_seconds)
        spec = NodeQosSpec(mode=self.mode, weights=self.weights, rules=(rule, *_memory_rules()), throttle=throttle)
        return NodeQos(metadata=Metadata(name=CLUSTER, generation=1), spec=spec)


def _memory_rules() -> tuple[ClusterRuleSpec, ...]:
    """Rules that throttle memory. They act on pods whose agent reports reclaimable memory."""
    return (
        ClusterRuleSpec(
            name="prod-refaults",
            metric_rule=MetricRuleSpec(name="prod_memory_refaults", value="32Mi"),
            avoidance_threshold=3,
            restore_threshold=3,
            cool_down_seconds=60.0,
        ),
        ClusterRuleSpec(
            name="node-memory",
            metric_rule=MetricRuleSpec(name="node_memory_usage_ratio", value="90%"),
            avoidance_threshold=2,
            restore_threshold=3,
            cool_down_seconds=60.0,
        ),
    )
