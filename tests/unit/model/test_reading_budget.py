"""What may be read: the fast check agrees with a walk over the values, in texts and out of them, and refuses early."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from slackwater.model.reading_budget import (
    EVENT,
    BeyondBudget,
    ReadingBudget,
    check_bytes,
    ends_at_first_error,
)

SMALL = ReadingBudget(
    size_bytes=2000, depth=3, items=4, keys=3, text_bytes=40, containers=5, container_bytes=40, values=8, value_bytes=20
)
texts = st.text(st.sampled_from('a,[]{}":\\ä\n'), max_size=20)
values = st.recursive(
    st.none() | st.integers(0, 9) | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=14,
)


def walked(value: Any, depth: int = 1) -> Iterator[tuple[int, int, int]]:
    """The depth of each list and object, its length, and 0 for a list or 1 for an object."""
    if isinstance(value, dict | list):
        yield depth, len(value), isinstance(value, dict)
        for part in value.values() if isinstance(value, dict) else value:
            yield from walked(part, depth + 1)


def is_within(value: Any, size: int, budget: ReadingBudget) -> bool:
    found = list(walked(value))
    return (
        size <= budget.size_bytes
        and len(found) <= budget.most_containers(size)
        and sum(max(0, length - 1) for _, length, _ in found) <= budget.most_values(size)
        and all(depth <= budget.depth for depth, _, _ in found)
        and all(length <= (budget.keys if is_object else budget.items) for _, length, is_object in found)
    )


@given(values, st.booleans(), st.sampled_from([None, 1]))
@example([[[[]]]], False, None)
@example([",[{" * 9, '"\\', "\\\\"], True, None)
@example({"\\": ["\\\\"], '"': {'\\"': "{"}}, True, 1)
def test_the_check_agrees_with_a_walk_over_the_values(value: Any, is_ascii: bool, indent: int | None) -> None:
    budget = dataclasses.replace(SMALL, text_bytes=2000)
    body = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    try:
        check_bytes(body, budget)
        is_read = True
    except BeyondBudget:
        is_read = False
    assert is_read == is_within(value, len(body), budget)


@given(values)
def test_a_typed_reader_is_only_told_of_size_and_number(value: Any) -> None:
    budget = dataclasses.replace(SMALL, depth=99, items=99, keys=99, text_bytes=2000)
    body = json.dumps(value).encode()
    if is_within(value, len(body), budget):
        check_bytes(body, SMALL, is_typed=True)
    else:
        with pytest.raises(BeyondBudget):
            check_bytes(body, SMALL, is_typed=True)


@given(st.binary(max_size=300) | st.text(st.sampled_from('a,[]{}":\\'), max_size=300).map(str.encode))
def test_what_is_no_json_raises_nothing_else(body: bytes) -> None:
    try:
        check_bytes(body, SMALL)
    except BeyondBudget:
        assert len(body) > min(SMALL.depth, SMALL.items)


ATTACKS = {
    "empty objects": b'{"pods":[' + b"{}," * 300_000 + b"{}]}",
    "numbers": b"[" + b"1," * 500_000 + b"1]",
    "lists in lists": b"[" * 1_000_000,
    "a long list of texts": b'["' + b'","' * 300_000 + b'"]',
    "long lists": b"[" + b",".join([b"[" + b",".join([b"1"] * 60_000) + b"]"] * 8) + b"]",
    "fields": b"{" + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}",
    "deep": b"[" * 100 + b"]" * 100,
    "deep beside texts": b'["' + b"[" * 5000 + b'",' + b"[" * 100 + b"]" * 101,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_each_kind_of_attack_is_refused(name: str) -> None:
    with pytest.raises(BeyondBudget):
        check_bytes(ATTACKS[name], EVENT)


@pytest.mark.parametrize("text", [b"[{," * 300_000, b'\\"[{' * 200_000, b"\\\\" * 500_000])
def test_a_long_text_is_one_value(text: bytes) -> None:
    check_bytes(b'{"a":"' + text + b'"}', EVENT)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b" " * 2001, "2001 bytes; allowed are 2000"),
        (b"[[],[],[],[],[]]", "more than 5 lists and objects in 16 bytes"),
        (b"[[1,1,1,1],[1,1,1,1],[1,1,1,1]]", "more than 9 values in 31 bytes"),
        (b"[[[[]]]]", "more than 3 levels"),
        (b"[1,1,1,1,1]", "more than 4 items in a list"),
        (b'{"a":1,"b":1,"c":1,"d":1}', "more than 3 fields in an object"),
    ],
)
def test_each_limit_holds_alone_and_is_named(body: bytes, problem: str) -> None:
    with pytest.raises(BeyondBudget, match=problem):
        check_bytes(body, SMALL)


def test_a_text_has_a_limit() -> None:
    with pytest.raises(BeyondBudget, match="a text of more than 40 bytes"):
        check_bytes(b'["' + b"a" * 41 + b'"]', SMALL)


class Part(BaseModel):
    number: int
    text: str


def test_a_list_ends_at_its_first_invalid_item() -> None:
    class Whole(BaseModel):
        parts: tuple[Part, ...]
        named: dict[str, list[Part]] = {}

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return ends_at_first_error(handler(source))

    with pytest.raises(ValidationError) as refusal:
        Whole.model_validate({"parts": [{}] * 1000, "named": {"a": [{}] * 1000}})
    assert refusal.value.error_count() == 4
