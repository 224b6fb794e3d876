"""NodeQOS, PodQOS, AvoidanceAction and Autonomy: what is in force, and what a file would make of it.

They are read and put together by the code that does so in service, so what is refused there is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.model.errors import InvalidInput
from slackwater.resources.names import CLUSTER
from slackwater.simulation.adapters.api_answers import ApiReader
from slackwater.simulation.adapters.document_files import Body, DocumentFile
from slackwater.simulation.domain.scenes import SceneNode
from slackwater.simulation.usecases.replay_policies import PolicyVariant
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.policies.rules import NodeQosRules
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.rulebook import Documents, Rulebook, rulebook_of

Named = TypeVar("Named", NodeQosRules, PodQos, AvoidanceAction, Autonomy)
Document = NodeQos | NodeQosRules | PodQos | AvoidanceAction | Autonomy


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All documents that count together."""

    cluster: NodeQos
    nodes: tuple[NodeQosRules, ...] = ()
    pods: tuple[PodQos, ...] = ()
    actions: tuple[AvoidanceAction, ...] = ()
    autonomies: tuple[Autonomy, ...] = ()

    def all(self) -> Sequence[Document]:
        return (self.cluster, *self.nodes, *self.pods, *self.actions, *self.autonomies)

    def rulebook(self, metrics: Metrics) -> Rulebook:
        return rulebook_of(self.cluster, Documents(self.nodes, self.pods, self.actions, self.autonomies), metrics)

    def with_document(self, one: Document) -> PolicySet:
        """With this one in the place of the one of its kind and name."""
        match one:
            case NodeQos():
                return replace(self, cluster=one)
            case NodeQosRules():
                return replace(self, nodes=_placed(self.nodes, one))
            case PodQos():
                return replace(self, pods=_placed(self.pods, one))
            case AvoidanceAction():
                return replace(self, actions=_placed(self.actions, one))
            case Autonomy():
                return replace(self, autonomies=_placed(self.autonomies, one))

    def everywhere(self) -> PolicySet:
        """For nodes without labels: every NodeQOS is for all of them."""
        nodes = [one.model_copy(update={"spec": one.spec.model_copy(update={"selector": None})}) for one in self.nodes]
        return replace(self, nodes=tuple(nodes))


def _placed(known: tuple[Named, ...], one: Named) -> tuple[Named, ...]:
    by_name = {each.metadata.name: each for each in known}
    by_name[one.metadata.name] = one
    return tuple(by_name[name] for name in sorted(by_name))


def first_set() -> PolicySet:
    """What ensurance follows by its settings as they come, before anybody has written anything."""
    return PolicySet(EnsuranceSettings.model_construct().first_policy())


def set_in_force(reads: ApiReader, metrics: Metrics) -> PolicySet:
    """Of an installation. Raises what its API raises."""
    found = first_set()
    for said in reads.get("/v1/nodeqos")["items"]:
        is_clusters = said["metadata"]["name"] == CLUSTER
        found = found.with_document(
            NodeQos.parse_stored(said, metrics) if is_clusters else NodeQosRules.parse(said, metrics)
        )
    for path, model in (("podqos", PodQos), ("avoidanceactions", AvoidanceAction), ("autonomies", Autonomy)):
        for said in reads.get(f"/v1/{path}")["items"]:
            found = found.with_document(model.parse(said))
    return found


def tried(base: PolicySet, documents: Sequence[Document], file: DocumentFile) -> PolicySet:
    """What `apply` of the file would make of it. Raises InvalidInput."""
    found = base
    for one in documents:
        found = found.with_document(one)
    taken: dict[str, str] = {}
    for grant in found.autonomies:
        name = taken.setdefault(grant.pool, grant.metadata.name)
        if name != grant.metadata.name:
            raise InvalidInput(
                f"{file.path}: spec.nodePool: pool {grant.pool!r} has the autonomy {name} already; change that one",
                field="spec.nodePool",
            )
    return found


def read_policies(file: DocumentFile, metrics: Metrics) -> list[Document]:
    """Every document of a file, checked. Raises InvalidInput that names file, document and field."""
    found: dict[tuple[str, str], str] = {}
    documents = []
    for body in file.bodies:
        one = _document(body, metrics)
        key = body.kind, one.metadata.name
        if key in found:
            raise InvalidInput(
                f"{body.origin}: metadata.name: {found[key]} is the {body.kind} {one.metadata.name} already; "
                "give each its own name",
                field="metadata.name",
            )
        found[key] = body.origin
        documents.append(one)
    if not documents:
        raise InvalidInput(f"{file.path}: holds no document; wanted is at least one NodeQOS", field="filename")
    return documents


def _document(body: Body, metrics: Metrics) -> Document:
    said = body.said
    try:
        match body.kind:
            case "PodQOS":
                return PodQos.parse(said)
            case "AvoidanceAction":
                return AvoidanceAction.parse(said)
            case "Autonomy":
                return Autonomy.parse(said)
        return NodeQos.parse(said) if _name_of(said) == CLUSTER else NodeQosRules.parse(said, metrics)
    except InvalidInput as error:
        raise InvalidInput(f"{body.origin}: {error.message}", field=error.field) from None


def _name_of(said: Any) -> Any:
    metadata = said.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def variant_of(name: str, found: PolicySet, metrics: Metrics, pool: str | None = None) -> PolicyVariant:
    documents = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found.all()]
    return PolicyVariant(name, found.rulebook(metrics), documents, pool)


def distinct_names(variants: Sequence[PolicyVariant]) -> list[PolicyVariant]:
    """Names that stand twice get a number."""
    found: list[PolicyVariant] = []
    for one in variants:
        taken, name, number = {each.name for each in found}, one.name, 2
        while name in taken:
            name, number = f"{one.name} ({number})", number + 1
        found.append(replace(one, name=name))
    return found


def only_pool(found: PolicySet, file: DocumentFile) -> str | None:
    """The pool that all nodes are in where nobody knows of pools. Raises InvalidInput where several are spoken of."""
    pools = [one.pool for one in found.autonomies]
    if len(pools) > 1:
        raise InvalidInput(
            f"{file.path}: holds an Autonomy for each of the pools {', '.join(pools)}, and a trace has no pools; "
            "give one, and all nodes are in its pool",
            field="spec.nodePool",
        )
    return pools[0] if pools else None


def remarks(name: str, found: PolicySet, rules: Rulebook, nodes: Sequence[SceneNode]) -> Iterator[str]:
    """What in these documents does nothing here, and why: else the figures would look as if it did."""
    actions = {action.name: action for action in rules.policies.actions}
    allowed = {action for one in rules.policies.pods for action in one.allowed_actions}
    asked = {rule.action for node in rules.policies.nodes for rule in node.rules}
    for action in sorted(asked - actions.keys()):
        yield f"{name}: there is no action {action}: its rules rest"
    for action in sorted(asked & actions.keys() - allowed):
        if actions[action].throttle is not None or actions[action].evicts:
            yield f"{name}: no PodQOS allows the action {action}: nobody can be asked for it"
    evicting = [action for action in asked & actions.keys() if actions[action].evicts]
    modes = {rules.autonomy_of(node.pool).mode for node in nodes}
    if evicting and Mode.EVICT not in modes:
        yield f"{name}: no pool here may evict: evictions are told as observed, and not done"
    for one in found.nodes:
        selector = one.spec.selector
        if selector is not None and not any(selector.matches(node.labels) for node in nodes):
            yield f"{name}: NodeQOS {one.metadata.name} selects no node here"


def sets_on_trace(files: Sequence[DocumentFile], metrics: Metrics) -> tuple[list[PolicySet], list[PolicyVariant]]:
    """What ensurance begins with, and what each file makes of it for all nodes of a trace. Raises InvalidInput."""
    first = first_set()
    tried_sets = [tried(first, read_policies(file, metrics), file).everywhere() for file in files]
    variants = [variant_of("default", first, metrics)]
    variants += [
        variant_of(file.name, found, metrics, only_pool(found, file))
        for file, found in zip(files, tried_sets, strict=True)
    ]
    return [first, *tried_sets], distinct_names(variants)


def sets_in_place(
    files: Sequence[tuple[DocumentFile, Sequence[Document]]], in_force: PolicySet, metrics: Metrics
) -> tuple[list[PolicySet], list[PolicyVariant]]:
    """What is in force, and what each file makes of it. Raises InvalidInput."""
    sets = [in_force, *(tried(in_force, documents, file) for file, documents in files)]
    names = ["in force", *(file.name for file, _ in files)]
    return sets, distinct_names([variant_of(name, found, metrics) for name, found in zip(names, sets, strict=True)])


def all_remarks(
    variants: Sequence[PolicyVariant], sets: Sequence[PolicySet], nodes: Sequence[SceneNode]
) -> Sequence[str]:
    """The remarks on every variant, with the nodes in the pool that it says."""
    found: list[str] = []
    for variant, documents in zip(variants, sets, strict=True):
        own = [node if variant.pool is None else replace(node, pool=variant.pool) for node in nodes]
        found += remarks(variant.name, documents, variant.rules, own)
    return found
