"""NodeQOS for some nodes, PodQOS, AvoidanceAction and Autonomy as they are stored, and the last good one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from slackwater.model.errors import InvalidInput
from slackwater.runtime.documents import DocumentStore, StoredDocument
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.policies.rules import NodeQosRules
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Documents

Policy = NodeQosRules | PodQos | AvoidanceAction | Autonomy


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document: as messages call it, its model, where it is stored and where it is found."""

    noun: str
    model: type[NodeQosRules] | type[PodQos] | type[AvoidanceAction] | type[Autonomy]
    table: str
    path: str


NODES: Final = Kind("nodeqos", NodeQosRules, "node_rules", "/v1/nodeqos")
PODS: Final = Kind("podqos", PodQos, "pod_qos", "/v1/podqos")
ACTIONS: Final = Kind("avoidanceaction", AvoidanceAction, "avoidance_actions", "/v1/avoidanceactions")
AUTONOMIES: Final = Kind("autonomy", Autonomy, "autonomies", "/v1/autonomies")
KINDS: Final = (NODES, PODS, ACTIONS, AUTONOMIES)

Stores = Mapping[Kind, DocumentStore]


class DocumentsInForce:
    """What was last read of all of them."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._metrics = all_metrics()
        self._good: dict[tuple[str, str], Policy] = {}
        self.found = Documents()
        self.problems: Mapping[str, str] = MappingProxyType({})
        """By noun and name, why the newest generation is not followed."""
        self._reads: list[Callable[[Kind, Mapping[str, str]], None]] = []

    def on_read(self, tell: Callable[[Kind, Mapping[str, str]], None]) -> None:
        """Have `tell` called with the problems by name of every kind whenever its documents have been read."""
        self._reads.append(tell)

    async def read(self) -> Documents:
        """As PostgreSQL has them now. Raises Unavailable; then all stays as it was."""
        rows = {kind: await store.documents() for kind, store in self._stores.items()}
        problems: dict[str, str] = {}
        parsed: dict[tuple[str, str], Policy] = {}
        for kind, stored in rows.items():
            for row in stored:
                if row.document is not None:
                    self._take(kind, row, parsed, problems)
        self._good, self.problems = parsed, MappingProxyType(problems)
        for kind in rows:
            of_kind = {key.partition("/")[2]: why for key, why in problems.items() if key.startswith(f"{kind.noun}/")}
            for tell in self._reads:
                tell(kind, of_kind)
        known = tuple(parsed[key] for key in sorted(parsed))
        self.found = Documents(
            tuple(one for one in known if isinstance(one, NodeQosRules)),
            tuple(one for one in known if isinstance(one, PodQos)),
            tuple(one for one in known if isinstance(one, AvoidanceAction)),
            tuple(one for one in known if isinstance(one, Autonomy)),
            sum(row.generation for stored in rows.values() for row in stored),
        )
        return self.found

    def _take(
        self, kind: Kind, row: StoredDocument, parsed: dict[tuple[str, str], Policy], problems: dict[str, str]
    ) -> None:
        key = kind.noun, row.name
        try:
            parsed[key] = document_of(kind, row, self._metrics)
        except InvalidInput as error:  # an older or newer version wrote it
            problems["/".join(key)] = error.message
            if key in self._good:
                parsed[key] = self._good[key]


def document_of(kind: Kind, row: StoredDocument, metrics: Metrics | None = None) -> Policy:
    """Raises InvalidInput for what cannot be read. A rule may name a metric that is installed here (`metrics`, if they
    are known already), or was once."""
    if kind is NODES:
        return with_metadata(NodeQosRules.stored(row.document, metrics), row.generation)
    return with_metadata(kind.model.parse(row.document), row.generation)


def with_metadata(document: Policy, generation: int, by: str | None = None) -> Policy:
    """The same of another generation, made by `by` if that is given."""
    return document.model_copy(update={"metadata": document.metadata.at(generation, by)})


def pools_taken(rows: Sequence[StoredDocument]) -> Mapping[str, str]:
    """Name of the Autonomy by pool, of all that can be read."""
    taken = {}
    for row in rows:
        if row.document is not None:
            try:
                taken[Autonomy.parse(row.document).pool] = row.name
            except InvalidInput:
                continue
    return taken
