"""Pages of lists that change between one page and the next."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.console.edge.pages import Key, behind_key, micros, moment_of, paged, token_of
from slackwater.model.errors import InvalidInput

NAMES = st.text(st.characters(exclude_characters="\0"), max_size=4)
"""PostgreSQL, where they are kept, takes no NUL."""


def key(item: str) -> Key:
    return (item, 1)


@given(st.sets(NAMES), st.sets(NAMES), st.integers(1, 5))
def test_what_stays_is_listed_once_and_in_order_whatever_comes_and_goes(
    stays: set[str], comes_and_goes: set[str], limit: int
) -> None:
    found: list[str] = []
    token, page_number = None, 0
    while True:
        there = sorted(stays | comes_and_goes) if page_number % 2 else sorted(stays)
        page = paged(there, key, token, limit, "things")
        assert len(page.items) <= limit
        found += page.items
        token, page_number = page.continue_, page_number + 1
        if token is None:
            break
    assert found == sorted(set(found))
    assert set(found) >= stays


def test_a_token_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidInput, match="things"):
        behind_key(token_of("nodes", ("a",)), "things")


@pytest.mark.parametrize(
    "token",
    ["%%%", "", "e30", "null", "W10", *(base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in (
        ["things"], ["things", None], ["things", True], ["things", [1]], ["things", "a\0"], {"things": 1}, 7,
    )), "[" * 3000],
)  # fmt: skip
def test_what_was_never_a_token_is_refused_with_the_field_named(token: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        behind_key(token, "things")
    assert (refused.value.code, refused.value.field) == ("invalid_continue", "continue")


def test_a_token_with_keys_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput):
        paged(["a"], key, token_of("things", (1, "a")), 1, "things")


def test_times_are_keys_without_loss() -> None:
    assert moment_of(micros(EPOCH), "", "") == EPOCH
    with pytest.raises(InvalidInput):
        moment_of(10**30, "t", "things")
