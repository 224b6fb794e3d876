"""Cross-field rules of documents in CEL, declared beside the validator of a model that says the same. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CelRule:
    """What must hold of `self`, an object of the model that declares it.

    expression    in CEL
    message       what the API server answers if it does not hold
    field         the field of `self` that is wrong, camelCase; empty: the object
    by_admission  whether a ValidatingAdmissionPolicy holds it: it reads a field that may have several types, which CEL
                  inside a CustomResourceDefinition does not see, or it costs more than CEL in there may
    """

    expression: str
    message: str
    field: str = ""
    by_admission: bool = False


def is_of_type(text: str, *types: str) -> str:
    """CEL for whether a value has one of these types of CEL: string, int, double, map."""
    return f"({' || '.join(f'type({text}) == {one}' for one in types)})"


def number_of(text: str, *, percent: bool = True) -> str:
    """CEL for the number of a quantity as written: a number, or a text such as 4500m, 1Gi, 0.85, and 85% if `percent`;
    -1 for another text."""
    trimmed = f"{text}.trim()"
    number = f"isQuantity({trimmed}) ? quantity({trimmed}).asApproximateFloat() : -1.0"
    if percent:
        number = f"{trimmed}.endsWith('%') ? double({trimmed}.replace('%', '')) / 100.0 : {number}"
    return f"(type({text}) == string ? ({number}) : double({text}))"
