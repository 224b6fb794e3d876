"""The PredictPolicies in force: the policy that each document resolves to, and the one that a pool follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.policy import PoolPolicies, PoolPolicy
from slackwater.prediction.domain.policy_inheritance import RATE, PolicyOverrides, effective
from slackwater.prediction.ports import PredictorCatalogue
from slackwater.prediction.usecases.predict_policy import (
    EffectivePolicy,
    PredictPolicy,
    PredictPolicyStatus,
    first_document,
)
from slackwater.resources.hooks import Hooks, InForce
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY
from slackwater.resources.names import CLUSTER
from slackwater.resources.store import ResourceMeter, ResourceStore

PoliciesFound = InForce[PredictPolicy, PoolPolicy]


class PredictPolicyHooks(Hooks[PredictPolicy, PoolPolicy]):
    """Resolves a document on top of its parent's policy, and the parent's on top of `first`, the service's settings."""

    def __init__(self, predictors: PredictorCatalogue, first: PoolPolicy) -> None:
        self._predictors = predictors
        self.settings = first

    def first(self) -> PredictPolicy:
        return first_document(self.settings)

    def resolve(self, document: PredictPolicy, parent: PoolPolicy | None) -> PoolPolicy:
        return usable(document.wish(), parent or self.settings, self._predictors)

    async def with_status(self, documents: Sequence[PredictPolicy], found: PoliciesFound) -> Sequence[PredictPolicy]:
        return [document.with_status(_status_of(document.name, found)) for document in documents]


def _status_of(name: str, found: PoliciesFound) -> PredictPolicyStatus:
    """Returns the status of a document on this replica."""
    policy = found.values.get(name)
    return PredictPolicyStatus(
        observed_generation=0 if policy is None else policy.generation,
        effective=None if policy is None else EffectivePolicy.of(policy),
        problem=found.problems.get(name, ""),
    )


def usable(wish: PolicyOverrides, above: PoolPolicy, predictors: PredictorCatalogue) -> PoolPolicy:
    """Resolves a document to a policy. Raises InvalidInput that names the field, Misconfigured."""
    resolved = effective(wish, above)
    for resource in ("cpu", "memory"):
        choice = resolved.model_of(resource)
        if resource in wish.rates and not predictors.takes_rate(choice.name):
            raise InvalidInput(
                f"spec.violationRate: the model of {resource}, {choice.name}, cannot be told a rate; leave it out, or "
                "choose a model with this setting (GET /v1/predictors says which have it)",
                field="spec.violationRate",
            )
        try:
            predictors.check(choice, resource)
        except InvalidInput as error:
            place = "violationRate" if error.field == RATE and resource in wish.rates else f"models.{resource}"
            raise InvalidInput(f"spec.{place}: {error.message}", code=error.code, field=f"spec.{place}") from None
    return resolved


class PoliciesInForce(ResourcesInForce[PredictPolicy, PoolPolicy]):
    """The policies of this replica by pool."""

    def __init__(self, store: ResourceStore, hooks: PredictPolicyHooks, meter: ResourceMeter) -> None:
        super().__init__(PREDICT_POLICY, store, hooks, meter)
        self.policies = PoolPolicies(hooks.settings)
        """The settings' policy before the first load."""
        self._settings = hooks.settings
        self._on_policies: list[Callable[[PoolPolicies], None]] = []
        self.on_change(self._adopt)

    def on_policies(self, notify: Callable[[PoolPolicies], None]) -> None:
        """Call `notify` with the policies now, and whenever they have changed."""
        self._on_policies.append(notify)
        notify(self.policies)

    def _adopt(self) -> None:
        in_force = self.now
        pools = {in_force.documents[name].pool: policy for name, policy in in_force.values.items()}
        cluster = in_force.values.get(CLUSTER, self._settings)
        before = self.policies
        self.policies = PoolPolicies(cluster, {pool: policy for pool, policy in pools.items() if pool is not None})
        if self.policies != before:
            for notify in self._on_policies:
                notify(self.policies)
