"""Objects of a cluster as YAML has them: what identifies them, and JSON within their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from slackwater.model.json_text import parse_json_text
from slackwater.model.records import record

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_LONGEST_NAME = 63


@record(frozen=True, slots=True)
class SourceObject:
    """One object. Fields of another type than Kubernetes has them are as if they were absent."""

    kind: str
    group: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def spec(self) -> Mapping[str, Any]:
        return mapping_of(self.body.get("spec"))


def source_objects(bodies: Iterable[Any]) -> Iterator[SourceObject]:
    """Yields the objects of documents; those of a List one by one. What has no kind is left out."""
    for body in bodies:
        fields = mapping_of(body)
        kind = str(fields.get("kind") or "")
        if kind.endswith("List") and isinstance(fields.get("items"), list):
            item_kind = {} if kind == "List" else {"kind": kind.removesuffix("List")}
            version = {"apiVersion": fields["apiVersion"]} if "apiVersion" in fields and item_kind else {}
            yield from source_objects({**item_kind, **version, **mapping_of(item)} for item in fields["items"])
        elif kind:
            metadata = mapping_of(fields.get("metadata"))
            group, _, _ = str(fields.get("apiVersion") or "").rpartition("/")
            yield SourceObject(
                kind,
                group,
                str(metadata.get("name") or ""),
                str(metadata.get("namespace") or ""),
                texts_of(metadata.get("labels")),
                texts_of(metadata.get("annotations")),
                fields,
            )


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def texts_of(value: Any) -> dict[str, str]:
    """Returns the entries of a mapping whose values are texts."""
    return {str(key): text for key, text in mapping_of(value).items() if isinstance(text, str)}


def json_object(text: str) -> Mapping[str, Any]:
    """Parses a JSON object. Raises ValueError that says what the text is instead."""
    try:
        value = parse_json_text(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise ValueError("is not a JSON object")
    return value


def selector_of(value: Any) -> dict[str, Any]:
    """Returns a label selector without empty parts. Raises ValueError for one that is none."""
    if not isinstance(value, Mapping):
        raise ValueError("is no label selector")
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ValueError("is no label selector")
    found: dict[str, Any] = {}
    if labels:
        found["matchLabels"] = dict(labels)
    if expressions:
        found["matchExpressions"] = [
            {key: part for key, part in mapping_of(expression).items() if part not in (None, [])}
            for expression in expressions
        ]
    return found


def selected_keys(value: Any) -> Iterator[str]:
    """Yields the keys that a label selector, or a mapping of keys, reads."""
    fields = mapping_of(value)
    expressions = fields.get("matchExpressions") or []
    if fields.keys() <= {"matchLabels", "matchExpressions"}:
        yield from mapping_of(fields.get("matchLabels"))
        yield from (str(mapping_of(expression).get("key")) for expression in expressions)
    else:
        yield from fields


def inverted(selectors: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the selector of what none of these select; None if no selector says that, because one has several
    conditions or none."""
    opposite = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    conditions = []
    for selector in selectors:
        expressions = [
            *(
                {"key": key, "operator": "In", "values": [value]}
                for key, value in selector.get("matchLabels", {}).items()
            ),
            *selector.get("matchExpressions", ()),
        ]
        if len(expressions) != 1 or expressions[0].get("operator") not in opposite:
            return None
        conditions.append({**expressions[0], "operator": opposite[expressions[0]["operator"]]})
    return {"matchExpressions": conditions} if conditions else {}


def document_name(text: str, taken: Iterable[str], instead: str) -> str:
    """Returns a name of a document: lower-case letters, digits and `-`, at most 63 of them, none that is taken."""
    stem = _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-") or instead
    used, name, number = set(taken), stem, 2
    while name in used:
        ending = f"-{number}"
        name, number = f"{stem[: _LONGEST_NAME - len(ending)].rstrip('-')}{ending}", number + 1
    return name
