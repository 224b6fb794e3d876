"""Every answer of the suites of ensurance is really asked for: whatever is changed in a case that passes is noticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from files import ADAPTORS, cases_of, chosen_files, judge, schema_of

FILES = {file.name: file for file in chosen_files()}
NOT_ASKED = frozenset(
    {
        # flags and texts of the peer's own doing, and its counters, which are not ours
        *("t", "disable", "enable", "events", "err", "error", "restCount", "trigCount", "sorted_order", "executed"),
        "denormalize_roundtrip_rel_tol",  # a tolerance
        "gaps_after",  # asked for where there was a gap
    }
)
DIFFERENCES = {("analyze_sequence", "taint"), ("rule_counters", "restored"), ("restore_container", "quota_writes")}
"""A wrong answer that happens to be what a written difference looks like."""


def changed(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every way to spoil one leaf or one list."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from changed(each, (*path, key))
    elif isinstance(value, list):
        if value:
            yield path, value[:-1]
        if value != value[::-1]:
            yield path, value[::-1]
        for place, each in enumerate(value):
            yield from changed(each, (*path, place))
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int | float):
        yield path, 3 * value + 7


def planted(answer: Any, path: tuple[Any, ...], value: Any) -> Any:
    spoilt = copy.deepcopy(answer)
    place = spoilt
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return spoilt


@pytest.mark.parametrize("name", ["crane.json", "koordlet_qos.json"])
def test_a_planted_error_is_noticed(name: str) -> None:
    if name not in FILES:
        pytest.skip(f"no {name}: set VECTORS to a folder that has it")
    document = json.loads(FILES[name].read_text())
    adaptors = ADAPTORS[schema_of(document)]
    noticed = 0
    for suite, case in cases_of(document):
        adaptor = adaptors.get(suite)
        if adaptor is None or suite.startswith(("percentile", "parse_")) or judge(adaptor, case).word != "pass":
            continue
        answer = "correct" if isinstance(case.get("correct"), Mapping) else "out"
        for path, value in changed(case[answer]):
            named = [part for part in path if isinstance(part, str)]
            if not path or NOT_ASKED & set(named):
                continue
            word = judge(adaptor, {**case, answer: planted(case[answer], path, value)}).word
            allowed = {"FAIL", "differ"} if (suite, named[-1]) in DIFFERENCES else {"FAIL"}
            assert word in allowed, (case["id"], path, value, word)
            noticed += 1
    assert noticed > 50
