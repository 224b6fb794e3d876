"""Resolves the policies of pools from documents: omitted fields follow the cluster's, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from slackwater.model.records import record
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies, PoolPolicy

RATE = "violation_rate"
"""The setting of a model that takes a stated rate."""


@record(frozen=True, slots=True)
class PolicyOverrides:
    """The fields that one document sets; None, or absent from a mapping, means omitted. By resource: `cpu`,
    `memory`.
    """

    name: str
    generation: int = 0
    pool: str | None = None
    """The pool it is for; None in the cluster's."""
    models: Mapping[str, ModelChoice] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    """Accepted ratio (0..1) of 24 h windows above the peak."""
    cadence: Mapping[str, float] = field(default_factory=dict)
    """Fields of Cadence by name."""
    protect_lsr: bool | None = None


def effective(wish: PolicyOverrides, above: PoolPolicy) -> PoolPolicy:
    """Returns one document's policy on top of the policy it follows.

    A model replaces the inherited model as a whole, including settings and stated rate. A rate alone changes the
    inherited model to target that rate.
    """
    cpu, memory = (_model(wish, resource, above.model_of(resource)) for resource in ("cpu", "memory"))
    return PoolPolicy(
        name=wish.name,
        generation=wish.generation,
        cpu=cpu,
        memory=memory,
        cadence=replace(above.cadence, **wish.cadence),
        protect_lsr=above.protect_lsr if wish.protect_lsr is None else wish.protect_lsr,
    )


def in_force(wishes: Iterable[PolicyOverrides], above: PoolPolicy | None = None) -> PoolPolicies:
    """Returns the policies of all documents. `above` applies where the cluster's document omits a field or is
    missing.
    """
    pools = list(wishes)
    cluster = above or PoolPolicy()
    for wish in pools:
        if wish.pool is None:
            cluster = effective(wish, cluster)
    return PoolPolicies(cluster, {wish.pool: effective(wish, cluster) for wish in pools if wish.pool is not None})


def _model(wish: PolicyOverrides, resource: str, above: ModelChoice) -> ModelChoice:
    choice = wish.models.get(resource, above)
    rate = wish.rates.get(resource)
    return choice if rate is None else replace(choice, settings={**choice.settings, RATE: rate})
