"""Any JSON of a family is judged without an exception: the public cases with fields dropped, spoilt and mixed up."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import limits
import pytest
from files import ADAPTORS, cases_of, chosen_files, judge, schema_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shapes import without_nulls
from verdicts import WORDS, Case, Verdict, compare, wanted

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
_NULL_SAYS_SOMETHING = {"histogram", "batch_container"}
"""Families in which a value that is null is an input of its own: NaN, a container without an entry."""
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


ALL = [(schema, suite) for schema, suites in ADAPTORS.items() for suite in suites]


@pytest.mark.parametrize(("schema", "suite"), ALL)
def test_any_case_of_any_family_gets_a_verdict(schema: str, suite: str) -> None:
    """Absent fields, odd types, huge numbers and other orders end no run, and a failure says what is wrong where."""
    cases = CASES.get((schema, suite)) or CASES.get((schema, _BORROWED.get(suite, "")))
    if not cases:
        pytest.skip("no vectors of this family: set VECTORS to a file or folder")
    adaptor = ADAPTORS[schema][suite]
    answers = {key for case in cases if isinstance(wanted(case), Mapping) for key in wanted(case)}
    is_whole = suite in FAMILIES.get(schema, ()) and not suite.startswith(_IN_WORDS)

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(spoilt(cases))
    def judged(case: Case) -> None:
        verdict = judge(adaptor, case)
        assert verdict.word in WORDS
        assert verdict.word == "pass" or verdict.why
        # An answer that a change has given another shape, or a name that the family does not use, is honestly that.
        want = wanted(case)
        assert verdict.word != "not covered" or not is_whole or not (isinstance(want, Mapping) and set(want) <= answers)

    judged()


@pytest.mark.parametrize(("schema", "suite"), ALL)
def test_a_case_means_the_same_however_it_is_written(schema: str, suite: str) -> None:
    """With each number as a float, and with fields that are null left out."""
    for case in CASES.get((schema, suite), [])[:4]:
        word = judge(ADAPTORS[schema][suite], case).word
        assert judge(ADAPTORS[schema][suite], {**case, **of_inputs(case, as_floats)}).word == word, case
        if suite not in _NULL_SAYS_SOMETHING:
            assert judge(ADAPTORS[schema][suite], {**case, **of_inputs(case, without_nulls)}).word == word, case


def of_inputs(case: Case, change: Callable[[Any], Any]) -> Case:
    return {name: change(case[name]) for name in ("in", "given") if name in case}


def as_floats(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: as_floats(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_floats(entry) for entry in value]
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def test_a_failure_names_the_place_of_the_case() -> None:
    def adaptor(case: Case) -> Verdict:
        return Verdict("pass") if case["in"]["pods"][1]["cpu"] + 1 == 3 else Verdict("FAIL", "another answer")

    def reason(pods: Any) -> str:
        return judge(adaptor, {"in": {"pods": pods}}).why

    assert judge(adaptor, {"in": {"pods": [{}, {"cpu": 2.0}]}}).word == "pass"
    assert reason([{}, {}]) == "this case cannot be read: in.pods.1.cpu is missing"
    assert reason([{}, {"cpu": "2"}]).startswith("this case cannot be read: in.pods.1.cpu is '2' (TypeError: ")
    assert reason([{}]).startswith("this case cannot be read: in.pods is [{}] (IndexError: ")


def test_a_case_is_bounded_in_memory_and_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CPU_SECONDS", 0.05)
    monkeypatch.setattr(limits, "MOST_BYTES", 2**26)

    def until_stopped(_: Case) -> Verdict:
        while True:
            pass

    assert judge(lambda case: compare([0] * case["in"], 1), {"in": 10**9}).why.startswith("this case needs more than")
    assert judge(until_stopped, {}).why.startswith("this case takes more than")


@pytest.mark.parametrize(
    "case", [{}, {"in": None}, {"in": [], "want": 1}, {"in": {}, "want": {}}, {"in": "x", "out": {}}]
)
def test_what_is_no_case_gets_a_verdict_too(case: Case) -> None:
    for schema, suite in ALL:
        verdict = judge(ADAPTORS[schema][suite], case)
        assert verdict.word in WORDS, suite
        assert verdict.word == "pass" or verdict.why, suite
