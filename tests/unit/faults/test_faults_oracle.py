"""The judge judged: what is lost, doubled or invented on purpose must be found, or the scenarios prove nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.faults.ledger import Key, Ledger, Outcome, read
from tests.faults.oracle import Applied, Findings, Track, compare, gaps, monotone
from tests.faults.report import Outcome as Run
from tests.faults.report import read_lines, write_line, write_page
from tests.faults.scenario import Result, Scenario, percentile

KEYS = st.builds(Key, st.just("fact"), st.text("abc", min_size=1, max_size=3))
LEDGERS = st.dictionaries(KEYS, st.sampled_from(Outcome), max_size=12)


def honest(meant: dict[Key, Outcome]) -> list[Key]:
    """What a system that keeps its promises shows: acked once, of the unknown perhaps some, nothing else."""
    unknown = sorted(key.name for key, outcome in meant.items() if outcome is Outcome.UNKNOWN)[::2]
    return [key for key, outcome in meant.items() if outcome is Outcome.ACKED or key.name in unknown]


@given(LEDGERS)
def test_an_honest_system_is_clean(meant: dict[Key, Outcome]) -> None:
    meant = {key: outcome for key, outcome in meant.items() if outcome is not Outcome.REFUSED}
    found = [key for key in honest(meant) if meant[key] is not Outcome.DROPPED]
    assert compare(meant, found).clean


@given(LEDGERS, st.data())
def test_one_acked_fact_that_is_missing_is_found(meant: dict[Key, Outcome], data: st.DataObject) -> None:
    victim = data.draw(KEYS)
    meant[victim] = Outcome.ACKED
    found = [key for key in meant if key != victim and meant[key] is Outcome.ACKED]
    findings = compare(meant, found)
    assert findings.lost == 1
    assert not findings.clean
    assert any(victim.name in example for example in findings.examples)


@given(LEDGERS, st.data())
def test_one_effect_too_many_is_found(meant: dict[Key, Outcome], data: st.DataObject) -> None:
    victim = data.draw(KEYS)
    meant[victim] = data.draw(st.sampled_from([Outcome.ACKED, Outcome.UNKNOWN]))
    found = [key for key in meant if meant[key] is Outcome.ACKED and key != victim] + [victim, victim]
    assert compare(meant, found).duplicates == 1


@given(LEDGERS, st.sampled_from([None, Outcome.REFUSED, Outcome.DROPPED]))
def test_an_unintended_fact_is_a_phantom(meant: dict[Key, Outcome], outcome: Outcome | None) -> None:
    stranger = Key("fact", "stranger")
    found = [key for key in meant if meant[key] is Outcome.ACKED]
    if outcome is not None:
        meant[stranger] = outcome
    assert compare(meant, [*found, stranger]).phantom == 1


def test_telemetry_may_vanish_but_not_be_invented() -> None:
    meant = {Key("report", "a"): Outcome.ACKED}
    assert compare(meant, [], may_vanish=True).clean
    assert not compare(meant, [Key("report", "b")], may_vanish=True).clean


@given(st.sets(st.integers(1, 40), min_size=1), st.integers(-3, 3))
def test_gaps_must_be_counted_to_the_last_one(kept: set[int], wrong: int) -> None:
    track = Track(counted=0)
    track.offered["boot"] = set(range(1, 45))
    track.kept["boot"] = sorted(kept)
    missing = max(kept) - len(kept)
    track.counted = missing + wrong
    findings = gaps({"n": track})
    assert findings.gaps == missing
    assert findings.gaps_unaccounted == abs(wrong)
    assert findings.clean is (wrong == 0)


def test_an_agent_that_goes_back_is_found() -> None:
    onward = [Applied("n", "w", 1, "a"), Applied("n", "w", 2, "b"), Applied("n", "x", 1, "c")]
    assert monotone(onward).clean
    assert not monotone([*onward, Applied("n", "w", 1, "a")]).clean
    assert not monotone([*onward, Applied("n", "w", 2, "other")]).clean


def test_a_ledger_survives_its_writer(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    one, two, three = (Key("fact", name) for name in "abc")
    for key in (one, two, three):
        ledger.meant(key)
    ledger.came(one, Outcome.ACKED)
    ledger.came(two, Outcome.UNKNOWN)
    ledger.came(two, Outcome.ACKED)
    ledger.came(one, Outcome.UNKNOWN)  # a retry of what was acked cannot take the word back
    ledger.close()
    with ledger.path.open("a") as file:
        file.write('{"kind": "fact", "na')  # the writer was killed here
    assert read(ledger.path) == {one: Outcome.ACKED, two: Outcome.ACKED, three: Outcome.UNKNOWN}


def test_findings_add_up() -> None:
    total = Findings(offered=1, lost=1, examples=("a",)) + Findings(offered=2, gaps=3, examples=("b",))
    assert total == Findings(offered=3, lost=1, gaps=3, examples=("a", "b"))


def test_a_run_is_one_line_and_a_page_that_names_what_broke(tmp_path: Path) -> None:
    async def nothing(folder: Path, strictness: object) -> Result:
        return Result()

    scenario = Scenario("kill-x", "kill <x>", nothing)
    result = Result(findings=Findings(offered=9, acked=9, lost=2), recovery_seconds=[0.5, 7.0])
    result.promise("x is back", kept=False)
    write_line(tmp_path, Run(scenario, 3.0, Result()))
    write_line(tmp_path, Run(scenario, 3.0, result))
    write_line(tmp_path, Run(Scenario("disk", "disk", nothing), 0.0, skipped="needs root"))
    lines = {line["scenario"]: line for line in read_lines(tmp_path)}
    assert lines["kill-x"]["outcome"] == "failed"
    assert lines["kill-x"]["lost"] == 2
    assert lines["kill-x"]["recovery_max_seconds"] == 7.0
    assert lines["disk"]["outcome"] == "skipped"
    page = write_page(tmp_path, [scenario]).read_text()
    assert "kill &lt;x&gt;" in page
    assert "✗ x is back" in page
    assert "<svg" in page
    assert "1 failed, 1 skipped" in page


def test_percentiles_are_nearest_rank() -> None:
    assert percentile([], 0.99) == 0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
