"""What is judged beside attacks: planted slowness is found, and what cannot be measured is not judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.bench.verdict import Verdict
from tests.faults.attack_verdict import LEAST_SAMPLES, Beside, joined, judge, lines_of

CALM = [0.02] * 195 + [0.1] * 5
"""Its p99 is a tenth of a second."""


def beside(name: str, stored: Sequence[float] = CALM, limited: Sequence[float] = CALM, steal: float = 0.0) -> Beside:
    return Beside(name, 10.0, stored, limited, steal, {"ingestion": 1.0, "console": 2.0},
                  {"ingestion": 300, "console": 100}, {"ingestion": 1000, "console": 200})  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "limited", "verdict"),
    [
        (CALM, CALM, Verdict.MET),
        ([2 * one for one in CALM], CALM, Verdict.MET),
        ([2.1 * one for one in CALM], CALM, Verdict.MISSED),
        (CALM, [2.1 * one for one in CALM], Verdict.MISSED),
        (CALM, [0.02] * 194 + [30.0] * 6, Verdict.MISSED),
        (CALM, CALM[: LEAST_SAMPLES - 1], Verdict.NOT_MEASURABLE),
        (CALM, [], Verdict.NOT_MEASURABLE),
    ],
)
def test_a_p99_of_more_than_twice_the_quiet_one_is_missed(
    stored: Sequence[float], limited: Sequence[float], verdict: Verdict
) -> None:
    assert judge(beside("flood", stored, limited), beside("quiet"))[0] is verdict


@pytest.mark.parametrize(("quiet", "attack"), [(0.0, 0.04), (0.04, 0.0)])
def test_a_span_whose_cpu_was_stolen_is_not_judged(quiet: float, attack: float) -> None:
    slow = beside("flood", [9 * one for one in CALM], steal=attack)
    assert judge(slow, beside("quiet", steal=quiet))[0] is Verdict.NOT_MEASURABLE


def test_a_shared_machine_has_more_patience() -> None:
    slow = beside("flood", [3 * one for one in CALM])
    assert judge(slow, beside("quiet"))[0] is Verdict.MISSED
    assert judge(slow, beside("quiet"), patience=2.0)[0] is Verdict.MET


def test_spans_of_quiet_are_one() -> None:
    both = joined([beside("quiet"), replace(beside("quiet", [0.5] * 10, steal=0.02), wrong=["ended"])])
    assert (len(both.stored), both.steal, both.seconds, both.cpu["console"]) == (210, 0.02, 20.0, 4.0)
    assert both.wrong == ["ended"]


def test_the_table_names_the_worst_and_what_is_broken() -> None:
    row = replace(
        beside("flood", [9 * one for one in CALM]), sent=7, named={"skipped": 3.0}, answers={"422": 2}, wrong=["x died"]
    )
    text = "\n".join(lines_of([row], beside("quiet")))
    assert "100 / 900" in text
    assert "missed: stored 900 ms, 9.0 times quiet" in text
    assert "skipped +3, answered: 422 2" in text
    assert "broken: x died" in text
    assert row.busiest == "console"
    assert row.fullest == "console"
