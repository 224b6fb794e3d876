"""ColocationStrategy documents from files: what an operator would apply, tried before it is.

They are read and merged by the code that does so in service, so a document that is refused there is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy
from slackwater.colocation.usecases.strategy_set import Kept, StrategySet
from slackwater.model.errors import InvalidInput
from slackwater.offers.document import DEFAULTS, Spec, strategy_of
from slackwater.offers.node import NodeState
from slackwater.offers.strategy import Strategy
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
from slackwater.resources.names import BY_SETTINGS, CLUSTER
from slackwater.simulation.adapters.api_answers import ApiReader
from slackwater.simulation.adapters.document_files import Body, DocumentFile
from slackwater.simulation.usecases.replay import Variant

BASE: Mapping[str, Any] = {**DEFAULTS, "enable": True}
"""What a service follows by its settings as they come: every default, and switched on."""


def default_variant() -> Variant:
    return Variant("default", [strategy_of({}, BASE)], [BASE])


def variants(files: Sequence[DocumentFile]) -> list[Variant]:
    """One for each file, for nodes that say nothing of themselves: what it has for the cluster, or its only document.

    Raises InvalidInput that names file and field.
    """
    found = [_for_every_node(file, documents) for file, documents in read_all(files)]
    return named_apart(found, files, ("default",))


def named_apart(found: Sequence[Variant], files: Sequence[DocumentFile], taken: Iterable[str]) -> list[Variant]:
    """Under their own names, or with that of their file where those are not enough."""
    names = [variant.name for variant in found]
    if len(set(names)) == len(names) and not set(names) & set(taken):
        return list(found)
    return [
        Variant(f"{one.name} ({file.name})", one.strategies, one.specs, one.which)
        for one, file in zip(found, files, strict=True)
    ]


def _for_every_node(file: DocumentFile, documents: Sequence[ColocationStrategy]) -> Variant:
    document = next((one for one in documents if one.is_clusters), documents[0])
    if len(documents) > 1 and not document.is_clusters:
        raise InvalidInput(
            f"{file.path}: holds {len(documents)} documents, and none is called {CLUSTER}", field="filename"
        )
    name = file.name if document.is_clusters and file.name != "stdin" else document.metadata.name
    return Variant(name, [strategy_of(document.spec.fields(), BASE)], [document.spec.fields()])


def for_nodes(
    name: str, documents: Iterable[ColocationStrategy], nodes: Sequence[NodeState], base: Spec = BASE
) -> Variant:
    """Every node with the strategy that it follows by these documents, merged as in service."""
    kept = {one.metadata.name: kept_of(one) for one in documents}
    pools = [one for title, one in kept.items() if title != CLUSTER]
    strategies = StrategySet(kept.get(CLUSTER), pools, base)
    found: dict[Strategy, int] = {}
    specs: list[Mapping[str, Any]] = []
    which = []
    for node in nodes:
        resolved = strategies.resolved(node)
        if resolved.strategy not in found:
            found[resolved.strategy] = len(found)
            specs.append(resolved.spec)
        which.append(found[resolved.strategy])
    return Variant(name, list(found), specs, np.array(which, np.intp))


def documents_in_force(reads: ApiReader) -> list[ColocationStrategy]:
    """Of an installation. Raises what its API raises."""
    return [ColocationStrategy.parse(each) for each in reads.get("/v1/colocationstrategies")["items"]]


def base_of(documents: Iterable[ColocationStrategy]) -> Spec:
    """What the cluster's document stands on: the service's settings, which are told as long as nobody wrote one."""
    own = next((one for one in documents if one.is_clusters and one.metadata.changed_by == BY_SETTINGS), None)
    return BASE if own is None else {**BASE, **own.spec.fields()}


def as_here(
    documents: Sequence[ColocationStrategy], nodes: Sequence[NodeState]
) -> tuple[Sequence[ColocationStrategy], str]:
    """The documents; a single one that selects no node here becomes the cluster's, and the note says so."""
    only = documents[0]
    selector = only.selector()
    if len(documents) > 1 or selector is None:
        return documents, ""
    if any(selector.matches(node.words.in_pool(node.pool).labels) for node in nodes):
        return documents, ""
    spec = only.spec.model_copy(update={"node_pool": None, "node_selector": None, "precedence": None})
    for_all = only.model_copy(update={"metadata": only.metadata.model_copy(update={"name": CLUSTER}), "spec": spec})
    return [for_all], f"{only.metadata.name} selects no node here: it is tried as the cluster's strategy"


def kept_of(document: ColocationStrategy) -> Kept:
    """As it counts."""
    metadata, spec = document.metadata, document.spec
    return Kept(metadata.name, metadata.generation, document.selector(), spec.precedence or 0, spec.fields())


def read_all(files: Sequence[DocumentFile]) -> list[tuple[DocumentFile, list[ColocationStrategy]]]:
    """Every file with its documents, of which there is at least one. Raises InvalidInput."""
    found = [(file, [_document(body) for body in file.bodies]) for file in files]
    for file, documents in found:
        if not documents:
            raise InvalidInput(
                f"{file.path}: holds no strategy; wanted is at least one {COLOCATION_STRATEGY.name}", field="filename"
            )
    return found


def _document(body: Body) -> ColocationStrategy:
    try:
        document = ColocationStrategy.parse(body.said)
        strategy_of(document.spec.fields(), BASE)
    except InvalidInput as error:
        raise InvalidInput(f"{body.origin}: {error.message}", field=error.field) from None
    return document


def variants_in_place(
    files: Sequence[tuple[DocumentFile, Sequence[ColocationStrategy]]],
    in_force: Sequence[ColocationStrategy],
    states: Sequence[NodeState],
    base: Spec,
) -> tuple[list[Variant], list[str]]:
    """One for each file, whose documents replace those in force of the same names; and notes for people. Raises
    InvalidInput."""
    found: list[Variant] = []
    notes: list[str] = []
    for file, documents in files:
        placed_documents, note = as_here(documents, states)
        notes += [note] if note else []
        name = file.name if file.name != "stdin" and documents[0].is_clusters else documents[0].metadata.name
        found.append(for_nodes(name, [*in_force, *placed_documents], states, base))
    return named_apart(found, [file for file, _ in files], ("in force",)), notes


def notes_on_predictions(current: Variant, tried: Sequence[Variant]) -> list[str]:
    """All variants see the same predictions, those that are young enough for the first strategy in force."""
    age = current.strategies[0].prediction_max_age_seconds
    others = {one.prediction_max_age_seconds for variant in (current, *tried) for one in variant.strategies} - {age}
    if not others:
        return []
    return [f"predictionMaxAgeSeconds: {age:.10g} s, as in force, counts for all that are compared"]
