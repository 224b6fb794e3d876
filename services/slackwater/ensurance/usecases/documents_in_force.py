"""The resources that ensurance follows: NodeQOS, PodQOS, AvoidanceAction and Autonomy, the last good ones of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from slackwater.decisions.reasons import Mode
from slackwater.events.codec.packed import pack
from slackwater.events.intent_declared import MOST_RULES_BYTES
from slackwater.model.bounds import MOST_ITEMS
from slackwater.model.errors import InvalidInput
from slackwater.model.reading_budget import PACKED, BeyondBudget, check_bytes
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
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Documents, rulebook_of
from slackwater.waterline.rules_codec import encode_rules

KINDS: Final = (NODE_QOS, POD_QOS, AVOIDANCE_ACTION, AUTONOMY)
Stores = Mapping[Kind, ResourceStore]
R = TypeVar("R", bound=Resource)


MOST_PACKED_RULES: Final = 65_536
"""Each intent and each whole decision record repeats the packed rules."""
MOST_VALUES: Final = MOST_ITEMS // 2
"""Keys and values of the rules. What they leave of a record's replay arguments is for pods and state."""
_BEFORE_VALUES: Final = (b",", b":", b"{", b"[")
InForceOf = Callable[[], Mapping[Kind, InForce[Resource, Resource]]]


class RulesHooks(Hooks[Resource, Resource]):
    """Refuses what all documents together would make too large for a node's intent."""

    def __init__(self, kind: Kind, first: NodeQos, others: InForceOf) -> None:
        self._kind = kind
        self._first = first
        self._others = others

    def validate_together(
        self,
        changed: Collection[str],
        now: InForce[Resource, Resource],
        would: InForce[Resource, Resource],
        prepared: Any,
    ) -> None:
        cluster, documents = _resolved({**self._others(), self._kind: would}, self._first)
        rules = rulebook_of(cluster, documents, all_metrics())
        if excess := _excess(encode_rules(rules.policies, rules.options(Mode.EVICT))):
            text = (
                f"spec: with {self._kind.noun} {', '.join(sorted(changed)[:3])} the rules of all documents are too"
                f" large for the intent of each node: {excess}: use fewer expressions or rules"
            )
            raise InvalidInput(text, code="rules_too_large", field="spec")


def _excess(rules: bytes) -> str:
    """Returns why an agent would not read these rules; empty if it would."""
    if len(rules) > MOST_RULES_BYTES:
        return f"{len(rules)} bytes; {MOST_RULES_BYTES} are allowed"
    try:
        check_bytes(rules, PACKED, "rules")
    except BeyondBudget as error:
        return error.message
    values = 1 + sum(map(rules.count, _BEFORE_VALUES))
    if values > MOST_VALUES:
        return f"{values} values; {MOST_VALUES} are allowed"
    packed = len(pack(rules))
    return f"{packed} bytes when packed; {MOST_PACKED_RULES} are allowed" if packed > MOST_PACKED_RULES else ""


class NodeQosHooks(RulesHooks):
    """`default` is what the settings say until a document is stored, and while none of its generations can be read."""

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
        self.hooks: Mapping[Kind, Hooks[Resource, Resource]] = {
            kind: (NodeQosHooks if kind is NODE_QOS else RulesHooks)(kind, first, self._now) for kind in stores
        }
        self._in_force = {kind: ResourcesInForce(kind, store, self.hooks[kind]) for kind, store in stores.items()}
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
        cluster, documents = _resolved(self._now(), self._first)
        if (cluster, documents) != (self.cluster, self.documents):
            self.cluster, self.documents = cluster, documents

    def _now(self) -> Mapping[Kind, InForce[Resource, Resource]]:
        return {kind: in_force.now for kind, in_force in self._in_force.items()}


def _resolved(in_force: Mapping[Kind, InForce[Resource, Resource]], first: NodeQos) -> tuple[NodeQos, Documents]:
    """The NodeQOS of the cluster, in its stored generation, and the documents beside it, by name."""

    def values(kind: Kind, model: type[R]) -> tuple[R, ...]:
        return tuple(value for _, value in sorted(in_force[kind].values.items()) if isinstance(value, model))

    nodes = in_force[NODE_QOS]
    cluster = cast("NodeQos", nodes.values.get(CLUSTER, first))
    revision = sum(each.revision for each in in_force.values())
    documents = Documents(
        values(NODE_QOS, NodeQosRules),
        values(POD_QOS, PodQos),
        values(AVOIDANCE_ACTION, AvoidanceAction),
        values(AUTONOMY, Autonomy),
        revision - nodes.generations.get(CLUSTER, 0),
    )
    return cluster.with_generation(nodes.generations.get(CLUSTER, cluster.metadata.generation)), documents
