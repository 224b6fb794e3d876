"""Documents of any kind, drawn from the JSON Schema of its model: mostly valid, at bounds, now and then wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from slackwater.resources.kind import Kind
from slackwater.resources.names import API_VERSION
from slackwater.waterline.registry.built_in import BUILT_IN

Drawn = st.SearchStrategy[Any]
TEXTS = ("gold", "a-b", "0.5", "85%", "1Gi", "64Mi", "500m", "2", "5000-5999", "-200--100", "BE", "Burstable", "7")
WRONG_TEXTS = ("", "Not A Name", "-1", "9-5", "1.5x", "two\nlines", "1e")
MOMENTS = ("2026-11-26T03:45:00Z", "2026-11-26T03:45:00.25+02:00", "2028-02-29T23:59:59-00:30")
WRONG_MOMENTS = (
    *("2", "1764128700", "2026-11-26", "2026-11-26 03:45:00Z", "2026-11-26T03:45:00", "2026-11-26T03:45Z"),
    *("2026-02-30T00:00:00Z", "2026-11-26t03:45:00z", "2026-11-26T24:00:00Z", "2026-11-26T03:45:00+25:00"),
)
WRONG: tuple[Any, ...] = (True, 3, -1, 0.5, "x", [], {}, [1], {"a": 1})
KEYS = ("gold", "slackwater.io/node-pool", "team")
METRICS = tuple(sorted(BUILT_IN.names()))
FIELDS: Mapping[str, Drawn] = {"metricRule.name": st.sampled_from(METRICS)}
"""Texts that must be of a register, by the end of their path."""


@cache
def documents(kind: Kind, *, wrong: bool = True) -> Drawn:
    """Documents named gold, or as the kind's parent. `wrong`: some have values of a wrong type or out of bounds."""
    names = ["gold", *([kind.parent] if kind.parent else [])]
    drawn = {name: _document(kind, name, wrong=wrong) for name in names}
    return st.sampled_from(names).flatmap(drawn.__getitem__)


def _document(kind: Kind, name: str, *, wrong: bool) -> Drawn:
    schema = kind.model_of(name).model_json_schema(by_alias=True)
    values = _Values(schema.get("$defs", {}), wrong=wrong)
    return values.of(schema["properties"]["spec"], "spec").map(
        lambda spec: {"apiVersion": API_VERSION, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
    )


class _Values:
    def __init__(self, definitions: Mapping[str, Any], *, wrong: bool) -> None:
        self.definitions = definitions
        self.wrong = wrong

    def of(self, schema: Mapping[str, Any], path: str) -> Drawn:
        """Values of a field; about one in forty is of another type."""
        right = self._right(schema, path)
        if not self.wrong or path == "spec":
            return right
        return st.integers(0, 39).flatmap(lambda dice: st.sampled_from(WRONG) if dice == 7 else right)

    def _right(self, schema: Mapping[str, Any], path: str) -> Drawn:
        if "$ref" in schema:
            return self._right(self.definitions[schema["$ref"].rpartition("/")[2]], path)
        if "anyOf" in schema:
            return st.one_of([self._right(one, path) for one in schema["anyOf"] if one.get("type") != "null"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for end, values in FIELDS.items():
            if path.endswith(end):
                return values
        match schema.get("type"):
            case "object":
                return self._object(schema, path)
            case "array":
                most = min(3, schema.get("maxItems", 3))
                items = self.of(schema.get("items", {}), f"{path}[]")
                return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)
        return self._scalar(schema)

    def _scalar(self, schema: Mapping[str, Any]) -> Drawn:
        match schema.get("type"):
            case "boolean":
                return st.booleans()
            case "integer":
                return self._numbers(schema, 1).map(int)
            case "number":
                return self._numbers(schema, 0.5)
            case "string" if schema.get("format") == "date-time":
                return st.sampled_from((*MOMENTS, *MOMENTS, *WRONG_MOMENTS) if self.wrong else MOMENTS)
            case "string":
                return st.sampled_from((*TEXTS, *TEXTS, *WRONG_TEXTS) if self.wrong else TEXTS)
        return st.sampled_from((1, 0.5, "x"))

    def _numbers(self, schema: Mapping[str, Any], step: float) -> Drawn:
        least = schema.get("minimum", schema.get("exclusiveMinimum", -5))
        most = schema.get("maximum", schema.get("exclusiveMaximum", 100))
        inside = [least + (most - least) * share for share in (0.1, 0.25, 0.5, 0.75)] + [most - step / 10]
        edges = [least, most, *((least - step, most + step) if self.wrong else ())]
        return st.sampled_from([*inside, *inside, *edges])

    def _object(self, schema: Mapping[str, Any], path: str) -> Drawn:
        fields = schema.get("properties")
        if not fields:
            patterns: Mapping[str, Any] = schema.get("patternProperties", {})
            values: Any = schema.get("additionalProperties") or next(iter(patterns.values()), {})
            inner = self.of(values if isinstance(values, dict) else {}, f"{path}.*")
            return st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
        required = set(schema.get("required", ()))
        drawn = {name: self.of(field, f"{path}.{name}") for name, field in fields.items()}

        @st.composite
        def built(draw: st.DrawFn) -> dict[str, Any]:
            optional = [name for name in drawn if name not in required]
            count = min(len(optional), 4)
            some = draw(st.lists(st.sampled_from(optional), max_size=count, unique=True)) if optional else []
            gone = draw(st.integers(0, 39)) == 7 and self.wrong
            names = [*([] if gone else [name for name in drawn if name in required]), *some]
            return {name: draw(drawn[name]) for name in names}

        return built()
