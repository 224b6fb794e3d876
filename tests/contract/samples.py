"""One fully populated sample per event, made from its schema: every field set, every optional one present."""

from __future__ import annotations

from typing import Any

from slackwater.events.envelope import Payload

TEXTS = {"date-time": "2026-01-05T00:00:00Z"}


def sample_of(payload: type[Payload]) -> dict[str, Any]:
    """A body of the event as a publisher would send it."""
    schema = payload.wire().model_json_schema(mode="serialization")
    value = _value(schema, schema.get("$defs", {}))
    assert isinstance(value, dict)
    return value


def _value(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _value(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if "anyOf" in schema:
        return _value(next(s for s in schema["anyOf"] if s.get("type") != "null"), definitions)
    if schema.get("type") == "object":
        return _object(schema, definitions)
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        return [_value(item, definitions) for item in items]
    return _scalar(schema)


def _object(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        return {name: _value(field, definitions) for name, field in schema["properties"].items()}
    additional = schema.get("additionalProperties")
    return {"name": _value(additional, definitions) if isinstance(additional, dict) else "value"}


def _scalar(schema: dict[str, Any]) -> Any:
    if schema.get("type") == "integer":
        return max(1, schema.get("minimum", 1))
    values = {"number": 0.5, "boolean": True}
    return values.get(schema.get("type", ""), TEXTS.get(schema.get("format", ""), "text"))
