"""Policy documents from files: read, sent, and what the server says of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.cli.client import answer_of
from slackwater.model.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    import httpx2

PATHS: Mapping[str, str] = {
    "NodeQOS": "/v1/nodeqos/{}",
    "PodQOS": "/v1/podqos/{}",
    "AvoidanceAction": "/v1/avoidanceactions/{}",
    "Autonomy": "/v1/autonomies/{}",
    "PredictPolicy": "/v1/predictpolicies/{}",
    "ColocationStrategy": "/v1/colocationstrategies/{}",
}
"""Where the documents of each kind are."""
ALWAYS_THERE = ("NodeQOS", "default")
"""The one of the whole cluster that no server removes."""
TRIES_OFFERS = frozenset({"ColocationStrategy"})
"""Kinds of which a dry run can also say what nodes would offer."""
TOGETHER: Mapping[str, str] = {"ColocationStrategy": "/v1/colocationstrategies"}
"""Kinds of which several are stored together, all or none, and where."""
TRIAL_SECONDS = 120.0
"""How long a server may take to compute the offers of a large fleet."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file; `origin` is the file and its number in it, from 1."""

    origin: str
    kind: str
    name: str
    body: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def documents(files: list[Path]) -> Iterator[Document]:
    """Every document of every file (`-` is standard input). Raises InvalidInput that names file and field."""
    import yaml

    for file in files:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
            found = list(yaml.safe_load_all(text))
        except OSError as error:
            raise InvalidInput(f"{file}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file}: is not YAML: {' '.join(str(error).split())}") from None
        for number, body in enumerate(found, 1):
            if body is not None:
                yield _document(f"{file} document {number}", body)


def _document(origin: str, body: Any) -> Document:
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in PATHS:
        raise InvalidInput(f"{origin}: kind: {kind!r} cannot be applied; allowed: {', '.join(PATHS)}", field="kind")
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{origin}: metadata.name: is missing; name the document", field="metadata.name")
    return Document(origin, kind, name, body)


def put(client: httpx2.Client, document: Document, *, dry_run: bool, nodes: int | None = None) -> Any:
    """What the server stored or, as a dry run, would store and change; with `nodes`, also what would be offered then,
    with so many nodes named. Raises what the server names."""
    return _send(client, "PUT", document, dry_run=dry_run, nodes=nodes)


@dataclass(frozen=True, slots=True)
class Tried:
    """What applying documents would do: an answer for each, and `offers` of those that are stored together."""

    answers: Sequence[Any]
    together: Sequence[Document]
    offers: Any = None


def try_all(client: httpx2.Client, wanted: Sequence[Document], *, nodes: int | None = None) -> Tried:
    """The trial of each document as in `put`; several of a kind of `TOGETHER` are tried with one another."""
    group = [one for one in wanted if one.kind in TOGETHER]
    if len(group) <= 1:
        return Tried([put(client, one, dry_run=True, nodes=nodes) for one in wanted], ())
    answer = put_together(client, group, dry_run=True, nodes=nodes)
    of_group = iter(answer["items"])
    answers = [next(of_group) if one in group else put(client, one, dry_run=True, nodes=nodes) for one in wanted]
    return Tried(answers, group, answer["offers"])


def put_together(client: httpx2.Client, wanted: Sequence[Document], *, dry_run: bool, nodes: int | None = None) -> Any:
    """As `put`, for several of one kind of `TOGETHER`: all are stored, or none."""
    import httpx2

    try:
        response = client.post(
            TOGETHER[wanted[0].kind],
            json={"items": [document.body for document in wanted]},
            params=_trial(wanted[0], nodes) if dry_run else {},
            timeout=client.timeout if nodes is None else TRIAL_SECONDS,
        )
    except httpx2.HTTPError as error:
        raise Unavailable(f"no answer from {client.base_url}: {error}") from None
    try:
        return answer_of(response)
    except InvalidInput as error:
        origins = ", ".join(document.origin for document in wanted)
        raise InvalidInput(f"{origins}: {error.message}", code=error.code) from None


def delete(client: httpx2.Client, document: Document, *, dry_run: bool, nodes: int | None = None) -> Any:
    """What the server removed or, as a dry run, would; with `nodes` as in `put`. Raises what the server names, NotFound
    if there is nothing."""
    if (document.kind, document.name) == ALWAYS_THERE:
        raise InvalidInput(
            f"{document.origin}: {document.title} cannot be deleted, only changed; it is always there",
            field="kind",
        )
    return _send(client, "DELETE", document, dry_run=dry_run, nodes=nodes)


def _send(client: httpx2.Client, method: str, document: Document, *, dry_run: bool, nodes: int | None) -> Any:
    from urllib.parse import quote

    import httpx2

    path = PATHS[document.kind].format(quote(document.name, safe=""))
    try:
        response = client.request(
            method,
            path,
            json=document.body if method == "PUT" else None,
            params=_trial(document, nodes) if dry_run else {},
            timeout=client.timeout if nodes is None else TRIAL_SECONDS,
        )
    except httpx2.HTTPError as error:
        raise Unavailable(f"no answer from {client.base_url}: {error}") from None
    try:
        return answer_of(response)
    except InvalidInput as error:
        raise InvalidInput(f"{document.origin}: {error.message}", code=error.code) from None


def _trial(document: Document, nodes: int | None) -> dict[str, str]:
    params = {"dryRun": "true"}
    if document.kind not in TRIES_OFFERS:
        return params
    return params | ({"offers": "false"} if nodes is None else {"limit": str(nodes)})
