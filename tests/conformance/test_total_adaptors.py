"""Any JSON of a family is judged without an exception: the public cases with fields dropped, spoilt and mixed up."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from files import ADAPTORS, cases_of, chosen_files, judge, schema_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verdicts import WORDS, Case, wanted

KOORD, CRANE = "koord-colocation-vectors/1", "crane"
FAMILIES = {
    KOORD: ("batch_calculate", "mid_calculate", "noderesource_calculate", "sync_gate", "decaying_histogram"),
    CRANE: (
        "throttle_run", "throttle_run_v2022", "restore_run", "restore_run_v2022", "evict_run", "rule_counters",
        "rule_counters_v2022", "validate_rules", "percentile", "parse_duration", "dsp_signal", "dsp_truncate",
        "dsp_autocorrelation", "dsp_is_peak", "dsp_fill_missing", "dsp_outliers", "dsp_fft_estimator",
        "dsp_best_estimator", "dsp_find_period", "dsp_choose_period", "dsp_find_period_csv", "prediction_error",
    ),
}  # fmt: skip
_BORROWED = {"restore_run": "restore_run_v2022"}
"""A family without a public case: the cases of another one that are read alike."""
_IN_WORDS = ("dsp_", "prediction_error")
"""Families whose series may be described in text, or be in files that the vectors do not contain."""
_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.sampled_from([0, -1, 2**63, 10**18, "", "0", "1d", "-5m", "1e400", "NaN", [], {}, [None], [[]], {"cpu": None}]),
    st.text(max_size=5),
)


def _public() -> dict[tuple[str, str], list[Case]]:
    found: dict[tuple[str, str], list[Case]] = {}
    for file in chosen_files():
        document = json.loads(file.read_text())
        schema = schema_of(document) if isinstance(document, Mapping) else ""
        for suite, case in cases_of(document) if schema in ADAPTORS else ():
            found.setdefault((schema, suite), []).append(case)
    return found


CASES = _public()
NAMED = [(schema, suite) for schema, suites in FAMILIES.items() for suite in suites]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document but its root."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


@st.composite
def spoilt(draw: st.DrawFn, cases: list[Case]) -> Any:
    """A case after one to four changes: something dropped, replaced, doubled or in another order."""
    case: Any = copy.deepcopy(dict(draw(st.sampled_from(cases))))
    for _ in range(draw(st.integers(1, 4))):
        there = list(places(case))
        if not there:
            break
        *way, last = draw(st.sampled_from(there))
        part = case
        for key in way:
            part = part[key]
        act = draw(st.sampled_from(["drop", "replace", "double", "reorder"]))
        if act == "drop":
            del part[last]
        elif act == "double" and isinstance(part, list):
            part.append(copy.deepcopy(part[last]))
        elif act == "reorder" and isinstance(part[last], list):
            part[last] = list(draw(st.permutations(part[last])))
        else:
            part[last] = copy.deepcopy(draw(_ANYTHING))
    return case


@pytest.mark.parametrize(("schema", "suite"), NAMED)
def test_any_case_of_a_family_is_judged(schema: str, suite: str) -> None:
    cases = CASES.get((schema, suite)) or CASES.get((schema, _BORROWED.get(suite, "")))
    if not cases:
        pytest.skip("no vectors of this family: set VECTORS to a file or folder")
    adaptor = ADAPTORS[schema][suite]
    asked = {key for case in cases if isinstance(wanted(case), Mapping) for key in wanted(case)}

    @settings(max_examples=100, suppress_health_check=list(HealthCheck))
    @given(spoilt(cases))
    def judged(case: Case) -> None:
        verdict = adaptor(case)
        assert verdict.word in WORDS
        # An answer that a change has given another shape, or a name that the family does not use, is honestly that.
        covered = isinstance(want := wanted(case), Mapping) and set(want) <= asked
        assert verdict.word != "not covered" or suite.startswith(_IN_WORDS) or not covered
        assert verdict.word == "pass" or verdict.why

    judged()


ALL = [(schema, suite) for schema, suites in ADAPTORS.items() for suite in suites]


@pytest.mark.parametrize(("schema", "suite"), ALL)
def test_any_case_of_any_family_gets_a_verdict(schema: str, suite: str) -> None:
    """Through `judge`, as in a run: other values, absent fields and odd types end no run, and say what is wrong."""
    cases = CASES.get((schema, suite))
    if not cases:
        pytest.skip("no vectors of this family: set VECTORS to a file or folder")

    @settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
    @given(spoilt(cases))
    def judged(case: Case) -> None:
        verdict = judge(ADAPTORS[schema][suite], case)
        assert verdict.word in WORDS
        assert verdict.word == "pass" or verdict.why

    judged()


@pytest.mark.parametrize(("schema", "suite"), NAMED)
@pytest.mark.parametrize(
    "case", [{}, {"in": None}, {"in": [], "want": 1}, {"in": {}, "want": {}}, {"in": "x", "out": {}}]
)
def test_what_is_no_case_fails_with_what_is_missing(schema: str, suite: str, case: Case) -> None:
    verdict = ADAPTORS[schema][suite](case)
    assert verdict.word in WORDS
    assert verdict.word == "pass" or verdict.why
