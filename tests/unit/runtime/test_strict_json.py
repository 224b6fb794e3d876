"""What the json module takes and no row or answer can hold is refused before a route sees it."""

from __future__ import annotations

import json

import pytest
from starlette.exceptions import HTTPException

from slackwater.runtime.strict_json import BodyBeyondBudget, parse_json


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8 at byte 6"),
        (b'{"a":"\xed\xa0\xbd\xed\xb8\x80"}', "not UTF-8 at byte 6"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8 at byte 0"),
        (b'{"a":"\\ud800"}', "half of a surrogate pair"),
        (b'[{"\\udc00\\ud800":1}]', "half of a surrogate pair"),
        (b'{"a":["x\\u0000"]}', "a NUL character"),
        (b'[{"\\u0000":1}]', "a NUL character"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
    ],
)
def test_what_cannot_be_held_is_refused_with_its_reason(body: bytes, said: str) -> None:
    with pytest.raises(HTTPException, match="body: ") as refusal:
        parse_json(body)
    assert (refusal.value.status_code, said in refusal.value.detail) == (400, True)


@pytest.mark.parametrize("body", [b"[" * 200_000, b"[" * 100 + b"]" * 100, b"[" + b"{}," * 300_000 + b"{}]"])
def test_what_is_beyond_the_budget_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(BodyBeyondBudget, match="body: more than"):
        parse_json(body)


@pytest.mark.parametrize("value", [{"a": ["\U0001f4a9", "ä", None, 1.5]}, "\U0001f4a9", "\\u0000", []])
def test_other_json_is_read_as_ever_with_and_without_escapes(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_what_is_no_json_says_where() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(b'{"a":')
