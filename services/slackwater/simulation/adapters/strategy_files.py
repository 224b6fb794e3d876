"""Reads ColocationStrategy documents from files, to try them before they are applied.

Colocation's own code parses and merges the documents, so a simulation refuses what the service refuses.
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
"""The strategy of the service's default settings: every default, and enabled."""


def default_variant() -> Variant:
    return Variant("default", [strategy_of({}, BASE)], [BASE])


def variants(files: Sequence[DocumentFile]) -> list[Variant]:
    """Returns one variant per file, for nodes without overrides: its cluster document, or its only document.

    Raises InvalidInput that names file and field.
    """
    found = [_for_every_node(file, documents) for file, documents in read_all(files)]
    return named_apart(found, files, ("default",))


def named_apart(found: Sequence[Variant], files: Sequence[DocumentFile], taken: Iterable[str]) -> list[Variant]:
    """Adds the file name to the names of variants that are not unique."""
    names = [variant.name for variant in found]
    if len(set(names)) == len(names) and not set(names) & set(taken):
        return list(found)
    return [
        Variant(f"{one.name} ({file.name})", one.strategies, one.specs, one.which)
        for one, file in zip(found, files, strict=True)
    ]


def _for_every_node(file: DocumentFile, documents: Sequence[ColocationStrategy]) -> Variant:
    document = next((document for document in documents if document.is_clusters), documents[0])
    if len(documents) > 1 and not document.is_clusters:
        raise InvalidInput(
            f"{file.path}: has {len(documents)} documents and none is named {CLUSTER}; name one {CLUSTER}",
            field="filename",
        )
    name = file.name if document.is_clusters and file.name != "stdin" else document.metadata.name
    return Variant(name, [strategy_of(document.spec.fields(), BASE)], [document.spec.fields()])


def for_nodes(
    name: str, documents: Iterable[ColocationStrategy], nodes: Sequence[NodeState], base: Spec = BASE
) -> Variant:
    """Resolves the strategy of every node from these documents, merged as in the service."""
    kept = {document.metadata.name: kept_of(document) for document in documents}
    pools = [document for title, document in kept.items() if title != CLUSTER]
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
    """Returns the documents of an installation. Raises what its API raises."""
    return [ColocationStrategy.parse(each) for each in reads.get("/v1/colocationstrategies")["items"]]


def base_of(documents: Iterable[ColocationStrategy]) -> Spec:
    """Returns the settings below the cluster's document. The API returns them until a document has been written."""
    own = next(
        (document for document in documents if document.is_clusters and document.metadata.changed_by == BY_SETTINGS),
        None,
    )
    return BASE if own is None else {**BASE, **own.spec.fields()}


def as_here(
    documents: Sequence[ColocationStrategy], nodes: Sequence[NodeState]
) -> tuple[Sequence[ColocationStrategy], str]:
    """Returns the documents. A single document that selects no node becomes the cluster's, with a note."""
    only = documents[0]
    selector = only.selector()
    if len(documents) > 1 or selector is None:
        return documents, ""
    if any(selector.matches(node.words.in_pool(node.pool).labels) for node in nodes):
        return documents, ""
    spec = only.spec.model_copy(update={"node_pool": None, "node_selector": None, "precedence": None})
    for_all = only.model_copy(update={"metadata": only.metadata.model_copy(update={"name": CLUSTER}), "spec": spec})
    return [for_all], f"{only.metadata.name} selects no node here: it is simulated as the cluster's strategy"


def kept_of(document: ColocationStrategy) -> Kept:
    """Returns the document as the service keeps it."""
    metadata, spec = document.metadata, document.spec
    return Kept(metadata.name, metadata.generation, document.selector(), spec.precedence or 0, spec.fields())


def read_all(files: Sequence[DocumentFile]) -> list[tuple[DocumentFile, list[ColocationStrategy]]]:
    """Returns every file with its documents, at least one each. Raises InvalidInput."""
    found = [(file, [_document(body) for body in file.bodies]) for file in files]
    for file, documents in found:
        if not documents:
            raise InvalidInput(
                f"{file.path}: holds no strategy; at least one {COLOCATION_STRATEGY.name} is needed", field="filename"
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
    """Returns one variant per file, whose documents replace those of the same names in force, and notes.

    Raises InvalidInput.
    """
    found: list[Variant] = []
    notes: list[str] = []
    for file, documents in files:
        placed_documents, note = as_here(documents, states)
        notes += [note] if note else []
        name = file.name if file.name != "stdin" and documents[0].is_clusters else documents[0].metadata.name
        found.append(for_nodes(name, [*in_force, *placed_documents], states, base))
    return named_apart(found, [file for file, _ in files], ("in force",)), notes


def notes_on_predictions(current: Variant, tried: Sequence[Variant]) -> list[str]:
    """Returns a note if predictionMaxAgeSeconds differs: all variants use the predictions that the strategy in force
    accepts."""
    age = current.strategies[0].prediction_max_age_seconds
    others = {
        strategy.prediction_max_age_seconds for variant in (current, *tried) for strategy in variant.strategies
    } - {age}
    if not others:
        return []
    return [f"predictionMaxAgeSeconds: the value in force, {age:.10g} s, applies to all compared strategies"]
