"""ColocationStrategy documents from files: what an operator would apply, tried before it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.colocation.domain.document import DEFAULTS, SELECTION, problems_of, strategy_of
from slackwater.model.errors import InvalidInput
from slackwater.simulation.usecases.replay import Variant

KIND, VERSION = "ColocationStrategy", "slackwater.io/v1alpha1"
BASE: Mapping[str, Any] = {"enable": True}
"""What a document stands on that leaves it out, as in the service."""
DEFAULT_SPEC: Mapping[str, Any] = {**DEFAULTS, **BASE}
"""What is compared with where nothing is in force: every default, and switched on."""


@dataclass(frozen=True, slots=True)
class Document:
    """One ColocationStrategy; `origin` is its file and its number in it, from 1."""

    origin: str
    name: str
    spec: Mapping[str, Any]
    pool: bool
    """It is for the nodes of a pool, not for all of them. Alone in its file it is tried as if it was for all."""


def default_variant() -> Variant:
    return Variant("default", [strategy_of(DEFAULT_SPEC)], [DEFAULT_SPEC])


def variants(files: Sequence[Path]) -> list[Variant]:
    """One for each file, under the name of its document. Raises InvalidInput that names file and field."""
    found = [_variant(file) for file in files]
    names = [variant.name for variant in found]
    if len(set(names)) == len(names) and "default" not in names:
        return found
    return [
        Variant(f"{variant.name} ({file.stem})" if str(file) != "-" else f"{variant.name} (stdin)", *_rest(variant))
        for variant, file in zip(found, files, strict=True)
    ]


def _rest(variant: Variant) -> tuple[Any, ...]:
    return variant.strategies, variant.specs, variant.which


def _variant(file: Path) -> Variant:
    documents = list(read(file))
    cluster = [document for document in documents if not document.pool or len(documents) == 1]
    if len(cluster) != 1:
        said = "holds no strategy" if not documents else f"holds {len(cluster)} strategies for the whole cluster"
        raise InvalidInput(f"{file}: {said}; wanted is one {KIND} for all nodes", field="filename")
    return Variant(cluster[0].name, [strategy_of(cluster[0].spec, BASE)], [cluster[0].spec])


def read(file: Path) -> Iterator[Document]:
    """Every strategy of a file (`-` is standard input), checked. Raises InvalidInput."""
    import yaml

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = list(yaml.safe_load_all(text))
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}", field="filename") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: is not YAML: {' '.join(str(error).split())}", field="filename") from None
    for number, body in enumerate(found, 1):
        if body is not None:
            yield _document(f"{file} document {number}", body)


def _document(origin: str, body: Any) -> Document:
    kind = body.get("kind") if isinstance(body, dict) else None
    if kind != KIND:
        raise InvalidInput(f"{origin}: kind: {kind!r} cannot be simulated; allowed: {KIND}", field="kind")
    if (version := body.get("apiVersion", VERSION)) != VERSION:
        raise InvalidInput(f"{origin}: apiVersion: {version!r} is unknown; allowed: {VERSION}", field="apiVersion")
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InvalidInput(f"{origin}: metadata.name: is missing; name the document", field="metadata.name")
    if not isinstance(spec, dict):
        raise InvalidInput(f"{origin}: spec: {spec!r} is not allowed; an object is wanted", field="spec")
    fields = {name: value for name, value in spec.items() if name not in SELECTION and value is not None}
    for problem in problems_of(fields):
        raise InvalidInput(f"{origin}: spec.{problem.message}", field=f"spec.{problem.field}")
    return Document(origin, metadata["name"], fields, pool=any(spec.get(name) is not None for name in SELECTION))
