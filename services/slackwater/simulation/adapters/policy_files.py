"""NodeQOS, PodQOS, AvoidanceAction and Autonomy: the set in force, and the set after a file is applied.

Ensurance's own code parses and combines the documents, so a simulation refuses what ensurance refuses.
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
    """The policy documents of one variant."""

    cluster: NodeQos
    nodes: tuple[NodeQosRules, ...] = ()
    pods: tuple[PodQos, ...] = ()
    actions: tuple[AvoidanceAction, ...] = ()
    autonomies: tuple[Autonomy, ...] = ()

    def all(self) -> Sequence[Document]:
        return (self.cluster, *self.nodes, *self.pods, *self.actions, *self.autonomies)

    def rulebook(self, metrics: Metrics) -> Rulebook:
        return rulebook_of(self.cluster, Documents(self.nodes, self.pods, self.actions, self.autonomies), metrics)

    def with_document(self, document: Document) -> PolicySet:
        """Replaces the document of the same kind and name, or adds it."""
        match document:
            case NodeQos():
                return replace(self, cluster=document)
            case NodeQosRules():
                return replace(self, nodes=_placed(self.nodes, document))
            case PodQos():
                return replace(self, pods=_placed(self.pods, document))
            case AvoidanceAction():
                return replace(self, actions=_placed(self.actions, document))
            case Autonomy():
                return replace(self, autonomies=_placed(self.autonomies, document))

    def everywhere(self) -> PolicySet:
        """Returns the set with every NodeQOS applied to all nodes, for histories without labels."""
        nodes = (
            rules.model_copy(update={"spec": rules.spec.model_copy(update={"selector": None})}) for rules in self.nodes
        )
        return replace(self, nodes=tuple(nodes))


def _placed(known: tuple[Named, ...], changed: Named) -> tuple[Named, ...]:
    by_name = {document.metadata.name: document for document in known}
    by_name[changed.metadata.name] = changed
    return tuple(by_name[name] for name in sorted(by_name))


def first_set() -> PolicySet:
    """Returns the policy that ensurance's default settings contain, which applies until a document is written."""
    return PolicySet(EnsuranceSettings.model_construct().first_policy())


def set_in_force(reads: ApiReader, metrics: Metrics) -> PolicySet:
    """Returns the set of an installation. Raises what its API raises."""
    policies = first_set()
    for body in reads.get("/v1/nodeqos")["items"]:
        is_clusters = body["metadata"]["name"] == CLUSTER
        policies = policies.with_document(
            NodeQos.parse_stored(body, metrics) if is_clusters else NodeQosRules.parse(body, metrics)
        )
    for path, model in (("podqos", PodQos), ("avoidanceactions", AvoidanceAction), ("autonomies", Autonomy)):
        for body in reads.get(f"/v1/{path}")["items"]:
            policies = policies.with_document(model.parse(body))
    return policies


def tried(base: PolicySet, documents: Sequence[Document], file: DocumentFile) -> PolicySet:
    """Returns the set after the file is applied. Raises InvalidInput."""
    policies = base
    for document in documents:
        policies = policies.with_document(document)
    taken: dict[str, str] = {}
    for grant in policies.autonomies:
        name = taken.setdefault(grant.pool, grant.metadata.name)
        if name != grant.metadata.name:
            raise InvalidInput(
                f"{file.path}: spec.nodePool: pool {grant.pool!r} already has the Autonomy {name}; change that one",
                field="spec.nodePool",
            )
    return policies


def read_policies(file: DocumentFile, metrics: Metrics) -> list[Document]:
    """Parses and validates every document of a file. Raises InvalidInput that names file, document and field."""
    origins: dict[tuple[str, str], str] = {}
    documents = []
    for body in file.bodies:
        document = _document(body, metrics)
        key = body.kind, document.metadata.name
        if key in origins:
            raise InvalidInput(
                f"{body.origin}: metadata.name: {origins[key]} already has the {body.kind} {document.metadata.name}; "
                "give each document its own name",
                field="metadata.name",
            )
        origins[key] = body.origin
        documents.append(document)
    if not documents:
        raise InvalidInput(f"{file.path}: holds no document; at least one NodeQOS is needed", field="filename")
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


def variant_of(name: str, policies: PolicySet, metrics: Metrics, pool: str | None = None) -> PolicyVariant:
    documents = [document.model_dump(mode="json", by_alias=True, exclude_none=True) for document in policies.all()]
    return PolicyVariant(name, policies.rulebook(metrics), documents, pool)


def distinct_names(variants: Sequence[PolicyVariant]) -> list[PolicyVariant]:
    """Adds a number to names that occur more than once."""
    named: list[PolicyVariant] = []
    for variant in variants:
        taken, name, number = {earlier.name for earlier in named}, variant.name, 2
        while name in taken:
            name, number = f"{variant.name} ({number})", number + 1
        named.append(replace(variant, name=name))
    return named


def only_pool(policies: PolicySet, file: DocumentFile) -> str | None:
    """Returns the only pool that the Autonomy documents name, for histories without pools.

    Raises InvalidInput if they name several.
    """
    pools = [autonomy.pool for autonomy in policies.autonomies]
    if len(pools) > 1:
        raise InvalidInput(
            f"{file.path}: spec.nodePool: has an Autonomy for each of the pools {', '.join(pools)}, but a trace has "
            "no pools; keep one Autonomy, which then applies to all nodes",
            field="spec.nodePool",
        )
    return pools[0] if pools else None


def remarks(name: str, found: PolicySet, rules: Rulebook, nodes: Sequence[SceneNode]) -> Iterator[str]:
    """Yields each part of the documents that has no effect on this history, with the reason."""
    actions = {action.name: action for action in rules.policies.actions}
    allowed = {action for document in rules.policies.pods for action in document.allowed_actions}
    asked = {rule.action for node in rules.policies.nodes for rule in node.rules}
    for action in sorted(asked - actions.keys()):
        yield f"{name}: there is no action {action}: rules that use it do nothing"
    for action in sorted(asked & actions.keys() - allowed):
        if actions[action].throttle is not None or actions[action].evicts:
            yield f"{name}: no PodQOS allows the action {action}: it applies to no pod"
    evicting = [action for action in asked & actions.keys() if actions[action].evicts]
    modes = {rules.autonomy_of(node.pool).mode for node in nodes}
    if evicting and Mode.EVICT not in modes:
        yield f"{name}: no pool here may evict: evictions are counted as observed and not carried out"
    for document in found.nodes:
        selector = document.spec.selector
        if selector is not None and not any(selector.matches(node.labels) for node in nodes):
            yield f"{name}: NodeQOS {document.metadata.name} selects no node here"


def sets_on_trace(files: Sequence[DocumentFile], metrics: Metrics) -> tuple[list[PolicySet], list[PolicyVariant]]:
    """Returns the default set and the set with each file applied to all nodes of a trace. Raises InvalidInput."""
    first = first_set()
    tried_sets = [tried(first, read_policies(file, metrics), file).everywhere() for file in files]
    variants = [variant_of("default", first, metrics)]
    variants += [
        variant_of(file.name, policies, metrics, only_pool(policies, file))
        for file, policies in zip(files, tried_sets, strict=True)
    ]
    return [first, *tried_sets], distinct_names(variants)


def sets_in_place(
    files: Sequence[tuple[DocumentFile, Sequence[Document]]], in_force: PolicySet, metrics: Metrics
) -> tuple[list[PolicySet], list[PolicyVariant]]:
    """Returns the set in force and the set with each file applied. Raises InvalidInput."""
    sets = [in_force, *(tried(in_force, documents, file) for file, documents in files)]
    names = ["in force", *(file.name for file, _ in files)]
    return sets, distinct_names(
        [variant_of(name, policies, metrics) for name, policies in zip(names, sets, strict=True)]
    )


def all_remarks(
    variants: Sequence[PolicyVariant], sets: Sequence[PolicySet], nodes: Sequence[SceneNode]
) -> Sequence[str]:
    """Returns the remarks on every variant, with all nodes in its pool if it names one."""
    notes: list[str] = []
    for variant, documents in zip(variants, sets, strict=True):
        own = [node if variant.pool is None else replace(node, pool=variant.pool) for node in nodes]
        notes += remarks(variant.name, documents, variant.rules, own)
    return notes
