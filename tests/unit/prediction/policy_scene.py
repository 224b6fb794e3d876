"""Replicas that share one store of policy documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.resources import MemoryResourceStore

from slackwater.model.errors import Misconfigured
from slackwater.prediction.adapters.predictors.catalogue import Catalogue
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce, PredictPolicyHooks
from slackwater.prediction.usecases.predict_policy import PredictPolicy
from slackwater.resources.change import ChangeResources
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY


class DocumentCounts:
    """The numbers of documents on the meter."""

    def __init__(self) -> None:
        self.followed = self.unusable = -1

    def policies(self, followed: int, unusable: int) -> None:
        self.followed, self.unusable = followed, unusable


class Lacking(Catalogue):
    """A replica without some models."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = set(lacking)

    def check(self, choice: ModelChoice, resource: str) -> None:
        if choice.name in self.lacking:
            raise Misconfigured(f"model {choice.name}: is not installed here", code="predictor_unusable")
        super().check(choice, resource)


class Replica:
    """One process, with the policies that its predictor received."""

    def __init__(self, store: MemoryResourceStore, catalogue: Catalogue | None = None, **settings: Any) -> None:
        self.meter, self.heard = DocumentCounts(), list[PoolPolicies]()
        self.catalogue = catalogue or Catalogue()
        first = PredictionSettings(**settings).first_policy()
        hooks = PredictPolicyHooks(self.catalogue, first)
        self.in_force = PoliciesInForce(store, hooks, self.meter)
        self.in_force.on_policies(self.heard.append)
        self.change = ChangeResources(PREDICT_POLICY, store, self.in_force, hooks)

    async def open(self) -> Replica:
        await self.in_force.load()
        return self


def document(name: str, generation: int = 0, /, **spec: Any) -> dict[str, Any]:
    """As an operator writes it."""
    metadata: dict[str, Any] = {"name": name} | ({"generation": generation} if generation else {})
    return {"apiVersion": "slackwater.io/v1alpha1", "kind": "PredictPolicy", "metadata": metadata, "spec": spec}


def policy(name: str, generation: int = 0, /, **spec: Any) -> PredictPolicy:
    return PredictPolicy.parse(document(name, generation, **spec))


def model(name: str, **settings: Any) -> Mapping[str, Any]:
    return {"name": name, "settings": settings}
