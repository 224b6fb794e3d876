"""Policy of predictions per node pool, in the types of the domain.

Every policy is a value with a generation, so that a decision can name the policy it was made under. The fields follow
the field's node prediction proposal; see docs/how-to/set-a-predict-policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from slackwater.model.records import record
from slackwater.resources.names import CLUSTER

DEFAULT_MODEL = "workload-profile"


@record(frozen=True, slots=True)
class Cadence:
    """When samples are folded and predictions are checked, in seconds of each node's stream and of the clock."""

    histogram_update_seconds: float = 30.0
    """Shorter windows are merged (the largest of each series) before they are folded."""
    reporting_seconds: float = 60.0
    """Interval of publishing every node with newly folded windows."""
    check_seconds: float = 20.0
    """Interval of checks between reports: a node is published at once if a value differs by more than the threshold, or
    if its last prediction exceeds the maximum age.
    """
    resource_diff_threshold: float = 0.05
    """Relative to the last published value, 0..1."""
    force_update_seconds: float = 600.0


@record(frozen=True, slots=True)
class ModelChoice:
    """A model by its name in the registry, and its settings as JSON values."""

    name: str = DEFAULT_MODEL
    settings: Mapping[str, Any] = field(default_factory=dict)


@record(frozen=True, slots=True)
class PoolPolicy:
    """The policy in force for one pool. `name` is CLUSTER or the pool's."""

    name: str = CLUSTER
    generation: int = 0
    cpu: ModelChoice = field(default_factory=ModelChoice)
    memory: ModelChoice = field(default_factory=ModelChoice)
    cadence: Cadence = field(default_factory=Cadence)
    protect_lsr: bool = False
    """CPU of LSR pods is never reclaimable, like that of LSE pods."""

    def model_of(self, resource: str) -> ModelChoice:
        return self.cpu if resource == "cpu" else self.memory


@record(frozen=True, slots=True)
class PoolPolicies:
    """All policies in force. A pool without its own follows the cluster's."""

    cluster: PoolPolicy = field(default_factory=PoolPolicy)
    pools: Mapping[str, PoolPolicy] = field(default_factory=dict)

    def of(self, pool: str) -> PoolPolicy:
        return self.pools.get(pool, self.cluster)
