"""Policy documents from files: parsed, sent to the server, with the server's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.cli.output import message
from slackwater.model.errors import InvalidInput
from slackwater.resources import catalog
from slackwater.resources.kind import Kind

if TYPE_CHECKING:
    from slackwater.client.transport import Transport

TRIAL_SECONDS = 120.0
"""Timeout of a dry run: a server needs this long to compute the offers of a large fleet."""


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """One document of a file; `origin` is the file and the document's number in it, from 1."""

    origin: str
    kind: Kind
    name: str
    body: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.kind.noun}/{self.name}"


def documents(files: list[Path]) -> Iterator[PolicyDocument]:
    """Every document of every file (`-` is standard input). Raises InvalidInput that names file and field, also for a
    file without a document.
    """
    from slackwater.runtime.yaml_files import yaml_documents

    for file in files:
        bodies = yaml_documents(file)
        if not bodies:
            raise InvalidInput(f"{file}: holds no document; at least one is needed", field="filename")
        for origin, body in bodies:
            yield _document(origin, body)


def _document(origin: str, body: Any) -> PolicyDocument:
    if not isinstance(body, dict):
        message = f"{origin}: {body!r:.40} is not a document; it needs apiVersion, kind, metadata and spec"
        raise InvalidInput(message, field="kind")
    kind, metadata = body.get("kind"), body.get("metadata")
    known = {kind_of_catalog.name: kind_of_catalog for kind_of_catalog in catalog.KINDS}
    if not isinstance(kind, str) or kind not in known:
        close = get_close_matches(kind, known, n=1, cutoff=0.7) if isinstance(kind, str) else []
        hint = f"did you mean {close[0]}?" if close else f"allowed: {', '.join(known)}"
        raise InvalidInput(f"{origin}: kind: {kind!r} cannot be applied; {hint}", field="kind")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return PolicyDocument(origin, known[kind], _name(origin, name), body)


def _name(origin: str, name: Any) -> str:
    """A name that is safe in a URL path; the server checks the rest. Raises InvalidInput."""
    if name is None or name == "":
        raise InvalidInput(f"{origin}: metadata.name: is missing; name the document", field="metadata.name")
    if not isinstance(name, str):
        raise InvalidInput(f"{origin}: metadata.name: {name!r} is not text; put it in quotes", field="metadata.name")
    if "/" in name or name in (".", ".."):
        message = f"{origin}: metadata.name: {name!r} is not a name; allowed: lower-case letters, digits and '-'"
        raise InvalidInput(message, field="metadata.name")
    return name


def put(transport: Transport, document: PolicyDocument, *, dry_run: bool, nodes: int | None = None) -> Any:
    """The document that the server stored or, as a dry run, would store and change. With `nodes`, also its preview,
    of at most that many nodes. Raises the server's error.
    """
    return _send(transport, "PUT", document, dry_run=dry_run, nodes=nodes)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The effect of applying documents: an answer for each, the groups of those that are stored together, and the
    previews of the groups, each in the field of its kind."""

    answers: Sequence[Any]
    groups: Mapping[str, Sequence[PolicyDocument]]
    """By the name of the kind; only of two documents or more."""
    preview: Mapping[str, Any] = field(default_factory=dict)

    def group_of(self, document: PolicyDocument) -> Sequence[PolicyDocument]:
        """The documents that are stored with this one; empty if it is stored alone."""
        return self.groups.get(document.kind.name, ())


def dry_run_all(transport: Transport, requested: Sequence[PolicyDocument], *, nodes: int | None = None) -> DryRun:
    """Dry-run each document as in `put`; documents of a kind that is stored together are tried together."""
    of_kinds: dict[str, list[PolicyDocument]] = {}
    for document in requested:
        if document.kind.together:
            of_kinds.setdefault(document.kind.name, []).append(document)
    groups = {name: group for name, group in of_kinds.items() if len(group) > 1}
    tried: dict[str, Iterator[Any]] = {}
    preview: dict[str, Any] = {}
    for name, group in groups.items():
        answer = put_together(transport, group, dry_run=True, nodes=nodes)
        tried[name] = iter(answer["items"])
        if (shown := group[0].kind.preview) is not None:
            preview[shown.field] = answer[shown.field]
    answers = [
        next(tried[document.kind.name])
        if document.kind.name in tried
        else put(transport, document, dry_run=True, nodes=nodes)
        for document in requested
    ]
    return DryRun(answers, groups, preview)


def put_together(
    transport: Transport, wanted: Sequence[PolicyDocument], *, dry_run: bool, nodes: int | None = None
) -> Any:
    """As `put`, for several documents of one kind that are stored together: all, or none."""
    origins = ", ".join(document.origin for document in wanted)
    body, params = {"items": [document.body for document in wanted]}, _trial(wanted[0], nodes) if dry_run else {}
    return _answered(transport, origins, "POST", wanted[0].kind.path, body, params, nodes)


def delete(transport: Transport, document: PolicyDocument, *, dry_run: bool, nodes: int | None = None) -> Any:
    """The document that the server removed or, as a dry run, would remove; `nodes` as in `put`. Raises the server's
    error, NotFound if there is no such document.
    """
    if document.kind.parent_model and document.name == document.kind.parent:
        raise InvalidInput(
            f"{document.origin}: {document.title} cannot be deleted; change it with `slackwater apply`",
            field="kind",
        )
    return _send(transport, "DELETE", document, dry_run=dry_run, nodes=nodes)


def _send(transport: Transport, method: str, document: PolicyDocument, *, dry_run: bool, nodes: int | None) -> Any:
    from urllib.parse import quote

    path = f"{document.kind.path}/{quote(document.name, safe='')}"
    body, params = document.body if method == "PUT" else None, _trial(document, nodes) if dry_run else {}
    return _answered(transport, document.origin, method, path, body, params, nodes)


def _answered(
    transport: Transport, origin: str, method: str, path: str, body: Any, params: Mapping[str, str], nodes: int | None
) -> Any:
    """The server's answer. Raises the server's error, with the origin of the document if the server refuses it."""
    try:
        reply = transport.exchange(method, path, params, body=body, timeout=None if nodes is None else TRIAL_SECONDS)
    except InvalidInput as error:
        raise InvalidInput(f"{origin}: {error.message}", code=error.code) from None
    warning = f"warning: {origin}: {reply.warning}"
    if reply.warning and warning not in transport.warned:
        transport.warned.add(warning)
        message(warning)
    return reply.body


def _trial(document: PolicyDocument, nodes: int | None) -> dict[str, str]:
    params = {"dryRun": "true"}
    preview = document.kind.preview
    if preview is None:
        return params
    if nodes is None:
        return params | ({preview.skipped_by: "false"} if preview.skipped_by else {})
    return params | ({"limit": str(nodes)} if preview.limited else {})
