"""The resources that ensurance follows: NodeQOS, PodQOS, AvoidanceAction and Autonomy, the last good ones of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar, cast

from slackwater.resources.hooks import Hooks, InForce
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kind import Kind
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS
from slackwater.resources.metadata import Resource
from slackwater.resources.names import CLUSTER
from slackwater.resources.store import ResourceStore, StoredResource
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.policies.rules import NodeQosRules
from slackwater.waterline.rulebook import Documents

KINDS: Final = (NODE_QOS, POD_QOS, AVOIDANCE_ACTION, AUTONOMY)
Stores = Mapping[Kind, ResourceStore]
R = TypeVar("R", bound=Resource)


class NodeQosHooks(Hooks[Resource, Resource]):
    """`default` is what the settings say until a document is stored, and while none of its generations can be read."""

    def __init__(self, first: NodeQos) -> None:
        self._first = first

    def first(self) -> Resource:
        return self._first

    def partial(self, row: StoredResource) -> tuple[Resource, Resource] | None:
        return (self._first, self._first) if row.name == CLUSTER else None

    def stand_in(self, row: StoredResource, in_force: InForce[Resource, Resource]) -> Resource | None:
        """`default` can always be read, and so written over."""
        if row.name != CLUSTER:
            return None
        return in_force.documents.get(row.name, self._first).with_generation(row.generation)


class DocumentsInForce:
    """The documents of all kinds, as they were last read."""

    def __init__(self, stores: Stores, first: NodeQos) -> None:
        """`first` is the NodeQOS of the cluster that is stored if there is none."""
        self._first = first
        self._in_force = {kind: ResourcesInForce(kind, store, hooks_of(kind, first)) for kind, store in stores.items()}
        self.cluster = first
        """The NodeQOS of the cluster, in its stored generation."""
        self.documents = Documents()

    @property
    def problems(self) -> Mapping[str, str]:
        """By noun and name, why the newest generation of a document is not followed."""
        return MappingProxyType(
            {
                f"{kind.noun}/{name}": why
                for kind, in_force in self._in_force.items()
                for name, why in in_force.problems.items()
            }
        )

    def of(self, kind: Kind) -> ResourcesInForce[Resource, Resource]:
        return self._in_force[kind]

    def on_read(self, notify: Callable[[Kind, Mapping[str, str]], None]) -> None:
        """Call `notify` with the problems by name of every kind whenever its documents have been read."""
        for kind, in_force in self._in_force.items():
            in_force.on_read(lambda problems, kind=kind: notify(kind, problems))  # type: ignore[misc]

    async def load(self) -> None:
        """Store the first NodeQOS of the cluster if there is none, complete the histories, then read. Raises
        Unavailable."""
        for in_force in self._in_force.values():
            await in_force.load()
        await self.read()

    async def read(self) -> None:
        """Read all documents. Raises Unavailable; then `documents` stays as it was."""
        for in_force in self._in_force.values():
            await in_force.catch_up()
        nodes = self._in_force[NODE_QOS].now
        cluster = cast("NodeQos", nodes.values.get(CLUSTER, self._first))
        generation = nodes.generations.get(CLUSTER, cluster.metadata.generation)
        self.cluster = cluster.with_generation(generation)
        revision = sum(in_force.now.revision for in_force in self._in_force.values())
        self.documents = Documents(
            self._values(NODE_QOS, NodeQosRules),
            self._values(POD_QOS, PodQos),
            self._values(AVOIDANCE_ACTION, AvoidanceAction),
            self._values(AUTONOMY, Autonomy),
            revision - nodes.generations.get(CLUSTER, 0),
        )

    def _values(self, kind: Kind, model: type[R]) -> tuple[R, ...]:
        """By name."""
        values = self._in_force[kind].now.values
        return tuple(value for _, value in sorted(values.items()) if isinstance(value, model))


def hooks_of(kind: Kind, first: NodeQos) -> Hooks[Resource, Resource]:
    """What a kind adds to the common behaviour."""
    return NodeQosHooks(first) if kind is NODE_QOS else Hooks()
