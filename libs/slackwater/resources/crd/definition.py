"""The CustomResourceDefinition of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from slackwater.resources.crd.merged import merged_schema
from slackwater.resources.crd.structural import (
    ANYTHING,
    LIST_KEYS,
    LIST_TYPE,
    RULES,
    AdmissionRule,
    Schema,
    structural_schema,
)
from slackwater.resources.kind import Column, Kind
from slackwater.resources.names import API_VERSION

GROUP, VERSION = API_VERSION.split("/")
CATEGORY: Final = "slackwater"
FOLLOWED: Final = "Followed"
"""The condition of every kind: whether the stored generation is in force."""
_LABELS: Final = {"app.kubernetes.io/name": "slackwater", "app.kubernetes.io/part-of": "slackwater"}
BUILT_IN_SHORT: Final = frozenset(
    {
        *("cj", "cm", "crd", "crds", "cs", "csr", "deploy", "ds", "ep", "ev", "hpa", "ing", "limits", "netpol", "no"),
        *("ns", "pc", "pdb", "po", "pv", "pvc", "quota", "rc", "rs", "sa", "sc", "sts", "svc"),
    }
)
"""Short names of Kubernetes' own kinds, which go before those of custom resources."""
_OWN: Final = frozenset({".metadata.name", ".metadata.changedBy"})
"""Columns that kubectl shows anyway, and of fields that Kubernetes' metadata has not."""


def definition(kind: Kind) -> dict[str, Any]:
    """The object for `kubectl apply`, apiextensions.k8s.io/v1. Raises Misconfigured for a model without structural
    schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": _LABELS},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                **({"singular": kind.noun} if kind.noun != kind.plural else {}),
                **({"shortNames": short} if (short := short_names(kind)) else {}),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": document_schema(kind)[0]},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(_columns(kind)),
                }
            ],
        },
    }


def short_names(kind: Kind) -> list[str]:
    """The short names of a kind that kubectl takes for it."""
    return [name for name in kind.short if name not in BUILT_IN_SHORT]


def document_schema(kind: Kind) -> tuple[Schema, list[AdmissionRule]]:
    """The structural schema of a kind's documents, and the rules that only an admission policy can hold."""
    schema, rules = structural_schema(kind.model_of())
    if kind.parent_model:
        parent, own = structural_schema(kind.model_of(kind.parent))
        schema = merged_schema(_without_status(schema), _without_status(parent), kind.parent)
        rules = [*rules, *(rule for rule in own if rule not in rules)]
    fields = schema["properties"]
    name = {key: value for key, value in fields["metadata"]["properties"]["name"].items() if key != "description"}
    text = {"type": "string"}
    made = {
        "type": "object",
        "description": f"{kind.about[:1].upper()}{kind.about[1:]}.",
        "required": ["spec"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": fields["spec"],
            "status": _status(fields.get("status")),
        },
    }
    return made | ({RULES: schema[RULES]} if RULES in schema else {}), [
        rule for rule in rules if rule.path[:1] == ("spec",)
    ]


def _without_status(schema: Schema) -> Schema:
    fields = {name: schema["properties"][name] for name in ("metadata", "spec")}
    return {**schema, "properties": fields}


def _columns(kind: Kind) -> Iterator[dict[str, Any]]:
    for column in kind.columns:
        path = _json_path(column)
        if path and path not in _OWN:
            wide = {"priority": column.priority} if column.priority else {}
            yield {"name": column.title, "type": column.type, "jsonPath": path, **wide}
    followed = f'.status.conditions[?(@.type=="{FOLLOWED}")]'
    yield {"name": FOLLOWED.upper(), "type": "string", "jsonPath": f"{followed}.status"}
    yield {"name": "REASON", "type": "string", "jsonPath": f"{followed}.reason", "priority": 1}
    yield {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _json_path(column: Column) -> str:
    return column.path if isinstance(column.path, str) else column.json_path


def _status(declared: Schema | None) -> Schema:
    """The fields of the kind's status, with the generation and the conditions that every kind has."""
    fields = {name: _written(field) for name, field in (declared or {}).get("properties", {}).items()}
    return {
        "type": "object",
        "description": "Set by the services of Slackwater.",
        "properties": {
            **fields,
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The generation that is in force.",
            },
            "conditions": _CONDITIONS,
        },
    }


def _written(schema: Schema) -> Schema:
    """A field of a status: what the services write is not filled in, required or checked again."""
    made: Schema = {key: schema[key] for key in ("type", "description", "format", ANYTHING) if key in schema}
    if "items" in schema:
        made["items"] = _written(schema["items"])
    if "properties" in schema:
        made["properties"] = {name: _written(field) for name, field in schema["properties"].items()}
    if "additionalProperties" in schema:
        made["additionalProperties"] = _written(schema["additionalProperties"])
    return made


def _text(description: str, **bounds: Any) -> Schema:
    return {"type": "string", "description": description, **bounds}


_CONDITIONS: Final[Schema] = {
    "type": "array",
    "description": f"{FOLLOWED}: whether the stored generation is in force.",
    LIST_TYPE: "map",
    LIST_KEYS: ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": _text("of the condition", maxLength=316),
            "status": _text("whether it holds", enum=["True", "False", "Unknown"]),
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "description": "the generation that it is about",
            },
            "lastTransitionTime": _text("when the status became another one", format="date-time"),
            "reason": _text("in one word", maxLength=1024),
            "message": _text("in words", maxLength=32768),
        },
    },
}
