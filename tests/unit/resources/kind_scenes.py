"""Scenes of every kind: hooks that need something of their service are made here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.support.clock import FakeClock
from tests.support.kinds import KindScene
from tests.support.resources import MemoryResourceStore

from slackwater.colocation.ports import Followers, TellingTransaction
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.strategies_in_force import StrategyHooks
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.documents_in_force import KINDS as GUARD_KINDS
from slackwater.ensurance.usecases.documents_in_force import DocumentsInForce
from slackwater.offers.node import NodeState
from slackwater.prediction.adapters.predictors.catalogue import Catalogue
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.policies_in_force import PredictPolicyHooks
from slackwater.resources import catalog, kinds
from slackwater.resources.hooks import Hooks
from slackwater.resources.kind import Kind
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.metadata import Resource


class NoNodes:
    """slackwater.colocation.ports.FollowerStore of an empty fleet."""

    async def followers(self, most: int) -> Mapping[str, Followers]:
        return {}

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        return ()

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        return ()

    def telling(self) -> AbstractAsyncContextManager[TellingTransaction]:
        raise NotImplementedError


def guard_hooks() -> Mapping[Kind, Hooks[Resource, Resource]]:
    stores = {kind: MemoryResourceStore(kind) for kind in GUARD_KINDS}
    return DocumentsInForce(stores, EnsuranceSettings().first_policy()).hooks


HOOKS: Mapping[str, Callable[[], Hooks[Any, Any]]] = {
    "NodeQOS": lambda: guard_hooks()[NODE_QOS],
    "PredictPolicy": lambda: PredictPolicyHooks(Catalogue(), PredictionSettings().first_policy()),
    "ColocationStrategy": lambda: StrategyHooks(ColocationSettings().base(), NoNodes(), FakeClock()),
}


def declared_example() -> Kind:
    """The kind of docs/how-to/add-a-kind.md, found as if its declaration were in slackwater.resources.kinds."""
    folder = str(Path(__file__).parent / "example")
    kinds.__path__.append(folder)
    try:
        (kind,) = catalog.declared_kinds([folder])
    finally:
        kinds.__path__.remove(folder)
    return kind


EXAMPLE = declared_example()


def scene_of(kind: Kind, **more: Any) -> KindScene:
    make = HOOKS.get(kind.name)
    return KindScene(kind, None if make is None else make(), **more)
