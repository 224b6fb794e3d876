"""Structural OpenAPI v3 schemas of models, as CustomResourceDefinitions require them.

Source of the rules: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from slackwater.model.errors import Misconfigured
from slackwater.resources.cel import CelRule, is_of_type
from slackwater.resources.crd.paths import ITEMS, Path
from slackwater.resources.strict import MOMENT
from slackwater.waterline.policies.quantity import AMOUNT_TEXT, DECIMAL_NUMBER, QUANTITY_TEXT

Schema = dict[str, Any]
ANYTHING: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_ADMISSION: Final = "x-slackwater-admission"
"""Rules of admission policies, in the schemas that pydantic makes; never in a CustomResourceDefinition."""

MOST_ITEMS: Final = 100
MOST_CHARACTERS: Final = 1024
"""Bounds of lists, maps and texts that declare none. Without a bound the API server refuses CEL rules below them,
because it estimates their cost from the largest object that the schema allows."""

KEYS: Final = "keys must have"
_KEPT: Final = (
    *("type", "description", "enum", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "maxProperties", ANYTHING, RULES, LIST_TYPE, LIST_KEYS),
)
_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SIGNS: Final = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_SELF: Final = re.compile(r"\bself\b")
_SCALARS: Final = frozenset({"string", "integer", "number"})


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """A rule of a ValidatingAdmissionPolicy about the value at a path."""

    path: Path
    rule: CelRule


class _DeclaredSchema(GenerateJsonSchema):
    """Adds what models declare for the API server."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        rules: Sequence[CelRule] = getattr(model, "RULES", ())
        if inside := [validation(rule) for rule in rules if not rule.by_admission]:
            made[RULES] = inside
        if outside := [rule for rule in rules if rule.by_admission]:
            made[_ADMISSION] = outside
        for field, key in getattr(model, "LIST_KEYS", {}).items():
            made["properties"][field] |= {LIST_TYPE: "map", LIST_KEYS: [key]}
        return made

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """As slackwater.resources.strict has it: the format alone takes other separators and zones."""
        return {**super().datetime_schema(schema), "pattern": MOMENT}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """An exact number: a number, or its text. The bounds of a text are a rule of the admission policy."""
        bounds = {_BOUNDS[name]: float(str(limit)) for name, limit in schema.items() if name in _BOUNDS}
        rules = [_scalar_rule("a number or its text", bounds)]
        return {**bounds, ANYTHING: True, "pattern": f"^{DECIMAL_NUMBER}$", _ADMISSION: rules}


def _scalar_rule(allowed: str, bounds: Mapping[str, float] = MappingProxyType({})) -> CelRule:
    limits = [(_SIGNS[name], limit) for name, limit in bounds.items()]
    is_scalar = is_of_type("self", "string", "int", "double")
    expression = " && ".join([is_scalar, *(f"double(self) {sign} {limit!r}" for sign, limit in limits)])
    text = ", ".join([f"must be {allowed}", *(f"{sign} {limit:g}" for sign, limit in limits)])
    return CelRule(expression, text, by_admission=True)


def validation(rule: CelRule) -> Schema:
    """An item of x-kubernetes-validations."""
    place = {"fieldPath": f".{rule.field}"} if rule.field else {}
    return {"rule": rule.expression, "message": rule.message, **place}


def structural_schema(model: type[BaseModel]) -> tuple[Schema, list[AdmissionRule]]:
    """The structural schema of a model, and the rules that only an admission policy can hold.

    Null is not `nullable`: the API server takes a null field for an omitted one, as the models do. Unknown fields are
    not mentioned: it prunes them, or refuses them under strict validation. Raises Misconfigured for a shape that
    a structural schema cannot have.
    """
    schema = model.model_json_schema(by_alias=True, schema_generator=_DeclaredSchema)
    rules: list[AdmissionRule] = []
    return _Converter(schema.get("$defs", {}), rules).convert(schema, ()), rules


@dataclass(frozen=True, slots=True)
class _Converter:
    definitions: Mapping[str, Schema]
    rules: list[AdmissionRule]

    def convert(self, schema: Schema, path: Path) -> Schema:
        schema = self._one_shape(self._resolved(schema))
        self.rules.extend(AdmissionRule(path, rule) for rule in schema.get(_ADMISSION, ()))
        made = {name: schema[name] for name in _KEPT if schema.get(name) not in (None, "")}
        if "description" in made:
            made["description"] = " ".join(made["description"].split())
        if "const" in schema:
            made["enum"] = [schema["const"]]
        if "default" in schema and schema["default"] is not None:
            made["default"] = without_null(schema["default"])
        for name, of in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if name in schema:
                made |= {of: schema[name], name: True}
        match made.get("type"):
            case "object":
                made |= self._object(schema, path)
            case "array":
                made["items"] = self.convert(schema.get("items", {}), (*path, ITEMS))
                made.setdefault("maxItems", MOST_ITEMS)
            case "string" if "enum" not in made:
                made.setdefault("maxLength", MOST_CHARACTERS)
            case None:
                made[ANYTHING] = True
        return made

    def _object(self, schema: Schema, path: Path) -> Schema:
        if fields := schema.get("properties"):
            made: Schema = {"properties": {name: self.convert(field, (*path, name)) for name, field in fields.items()}}
            return made | ({"required": list(schema["required"])} if schema.get("required") else {})
        values = schema.get("additionalProperties")
        patterns: Mapping[str, Schema] = schema.get("patternProperties", {})
        if patterns:
            ((key, values),) = patterns.items()
            names = schema.get("propertyNames", {})
            least, most = names.get("minLength", 0), names.get("maxLength", MOST_CHARACTERS)
            rule = CelRule(
                f"self.all(key, size(key) >= {least} && size(key) <= {most} && key.matches({cel_text(key)}))",
                f"{KEYS} {least} to {most} characters and match {key}",
            )
            made = self._map(values, path)
            if "type" not in made["additionalProperties"]:  # CEL in a schema cannot read a map of values without a type
                self.rules.append(AdmissionRule(path, rule))
                return made
            return {**made, RULES: [validation(rule)]}
        if isinstance(values, dict) and self._resolved(values):
            return self._map(values, path)
        return {ANYTHING: True}

    def _map(self, values: Schema, path: Path) -> Schema:
        within = _Converter(self.definitions, [])
        inner = within.convert(values, ())
        if any(declared.path for declared in within.rules):
            raise Misconfigured(f"{'.'.join(path)}: rules of admission policies about fields in maps are not made")
        self.rules.extend(AdmissionRule(path, _of_every_value(declared.rule)) for declared in within.rules)
        return {"additionalProperties": inner, "maxProperties": MOST_ITEMS}

    def _resolved(self, schema: Schema) -> Schema:
        """The schema with what it refers to; what stands beside the reference goes before."""
        if len(schema.get("allOf", ())) == 1:
            schema = {**schema["allOf"][0], **{name: value for name, value in schema.items() if name != "allOf"}}
        reference = schema.get("$ref")
        if reference is None:
            return schema
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        return {**self._resolved(self.definitions[reference.rpartition("/")[2]]), **beside}

    def _one_shape(self, schema: Schema) -> Schema:
        """The schema without alternatives, which a structural schema cannot have. Null is none."""
        if "anyOf" not in schema:
            return schema
        beside = {name: value for name, value in schema.items() if name != "anyOf"}
        shapes = [self._resolved(shape) for shape in schema["anyOf"] if shape.get("type") != "null"]
        if len(shapes) == 1:
            return {**shapes[0], **beside}
        types = {shape.get("type") for shape in shapes}
        if types <= _SCALARS and "string" in types:  # a quantity as written
            texts = "4500m or 1Gi" if beside.get("pattern") == AMOUNT_TEXT else "4500m, 1Gi, 0.85 or 85%"
            rules = [_scalar_rule(f"a number or a quantity such as {texts}")]
            return {ANYTHING: True, "pattern": QUANTITY_TEXT, _ADMISSION: rules, **beside}
        return {ANYTHING: True, **beside}  # the model declares what it may be, as a rule by admission


def _of_every_value(rule: CelRule) -> CelRule:
    """The rule about each value of a map."""
    return replace(rule, expression=f"self.all(key, {_SELF.sub('self[key]', rule.expression)})")


def cel_text(text: str) -> str:
    """A string literal of CEL. Control characters are escaped, because a literal ends with its line."""
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = "".join(letter if letter >= " " else f"\\u{ord(letter):04x}" for letter in quoted)
    return f"'{escaped}'"


def without_null(value: Any) -> Any:
    """A default without fields that are null: the API server takes null for no value, and refuses it in a default."""
    if isinstance(value, Mapping):
        return {key: without_null(part) for key, part in value.items() if part is not None}
    return [without_null(part) for part in value] if isinstance(value, list) else value
