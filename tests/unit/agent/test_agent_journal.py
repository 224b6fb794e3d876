"""Whatever is written and wherever it crashes: the next start gives back exactly what was there before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_fakes import Crash, FakeDriver, pod, texts
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import FakeClock

from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.convergence import plan
from slackwater.agent.domain.journal import Journal, record, replay
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.usecases.actuate import Actuator

KNOBS = [Knob(name, "cpu_limit") for name in "abc"]
wanted = st.dictionaries(st.sampled_from(KNOBS), st.none() | st.sampled_from(["10", "20", "30", "max"]), min_size=1)


@given(st.lists(st.tuples(wanted, st.none() | st.integers(0, 2)), max_size=12), st.sampled_from(["max", "20"]))
def test_originals_come_back_after_any_interleaving_of_writes_and_crashes(
    history: list[tuple[dict[Knob, str | None], int | None]], original: str
) -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b"), pod("c"), limit=original)
    before = texts(driver, KNOBS)
    file = MemoryJournal()
    actuator = Actuator(driver, file)
    for desired, crash_after in history:
        driver.crash_after = None if crash_after is None else len(driver.writes) + crash_after
        try:
            everything = {**dict.fromkeys(actuator.journal.knobs()), **desired}
            actuator.perform(plan(everything, texts(driver, everything), actuator.journal, {}))
        except Crash:
            driver.crash_after = None
            actuator = Actuator(driver, file)
            assert actuator.recover().exact
            assert texts(driver, KNOBS) == before
    driver.crash_after = None
    assert Actuator(driver, file).recover().exact
    assert texts(driver, KNOBS) == before


@given(st.integers(0, 3))
def test_a_crash_while_restoring_is_restored_at_the_next_start(survived: int) -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b"), pod("c"))
    before = texts(driver, KNOBS)
    file = MemoryJournal()
    actuator = Actuator(driver, file)
    actuator.perform(plan(dict.fromkeys(KNOBS, "10"), before, actuator.journal, {}))
    driver.crash_after = len(driver.writes) + survived
    try:
        actuator.restore_all()
    except Crash:
        assert survived < 3
    driver.crash_after = None
    assert Actuator(driver, file).recover().exact
    assert texts(driver, KNOBS) == before


def test_a_file_with_a_foreign_value_is_left_and_named_in_the_report() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    actuator = Actuator(driver, MemoryJournal())
    knob = KNOBS[0]
    actuator.perform(plan({knob: "10"}, {knob: "max"}, actuator.journal, {}))
    driver.knobs[knob] = "777"
    report = actuator.restore_all()
    assert not report.exact
    assert [(file.previous, file.now) for file in report.files] == [("max", "777")]


def test_a_file_that_vanished_is_no_failure() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    actuator = Actuator(driver, MemoryJournal())
    actuator.perform(plan({KNOBS[0]: "10"}, {KNOBS[0]: "max"}, actuator.journal, {}))
    driver.remove("a")
    report = actuator.restore_all()
    assert report.exact
    assert report.files[0].now is None


def test_a_refused_write_is_reported_and_leaves_the_original(tmp_path: Path) -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    driver.refused.add(KNOBS[0])
    actuator = Actuator(driver, LinesJournal(tmp_path / "journal"))
    outcome = actuator.perform(plan({KNOBS[0]: "10"}, {KNOBS[0]: "max"}, actuator.journal, {}))
    assert outcome.errors == {KNOBS[0]: "write_refused"}
    assert actuator.restore_all().exact
    actuator.file.close()


def test_refused_writes_do_not_make_our_own_text_look_foreign() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    knob = KNOBS[0]
    file = MemoryJournal()
    actuator = Actuator(driver, file)
    actuator.perform(plan({knob: "10"}, {knob: "max"}, actuator.journal, {}))
    driver.refused.add(knob)
    for text in ("20", "30", "20"):
        actuator.perform(plan({knob: text}, {knob: "10"}, actuator.journal, {}))
    driver.refused.clear()
    assert Actuator(driver, file).recover().exact
    assert driver.limit("a") == "max"


@given(st.lists(st.tuples(st.sampled_from(["claim", "write", "release"]), st.sampled_from(KNOBS), st.text(max_size=3))))
def test_compacting_keeps_every_claim_as_it_was(lines: list[tuple[str, Knob, str]]) -> None:
    journal = replay(record(op, knob, text) for op, knob, text in lines)
    again = replay(journal.records())
    assert again.knobs() == journal.knobs()
    assert [again.claim_of(knob) for knob in again.knobs()] == [journal.claim_of(knob) for knob in journal.knobs()]


def test_a_torn_last_line_is_cut_off_and_the_rest_counts(tmp_path: Path) -> None:
    file = LinesJournal(tmp_path / "journal")
    file.append([record("claim", KNOBS[0], "max"), record("write", KNOBS[0], "10")], sync=True)
    file.close()
    with (tmp_path / "journal").open("ab") as torn:
        torn.write(b'{"op":"claim","pa')
    assert file.load().knobs() == (KNOBS[0],)
    file.append([record("claim", KNOBS[1], "max")], sync=False)
    assert file.load().knobs() == (KNOBS[0], KNOBS[1])
    file.replace(Journal())
    assert file.load().knobs() == ()
    file.close()


class Recorder(MemoryJournal):
    """Notes the order of journal lines, syncs and writes."""

    def __init__(self, driver: FakeDriver) -> None:
        super().__init__()
        self.driver = driver
        self.order: list[str] = []

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        super().append(records, sync=sync)
        words = ",".join(f"{line['op']} {line['path']}" for line in records)
        self.order.append(f"{words} sync={sync} after {len(self.driver.writes)} writes")


def test_claims_are_synced_before_the_first_write_and_later_writes_are_noted_before_they_happen() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b"))
    file = Recorder(driver)
    actuator = Actuator(driver, file)
    for wanted in ("10", "20"):
        desired = dict.fromkeys(KNOBS[:2], wanted)
        actuator.perform(plan(desired, texts(driver, desired), actuator.journal, {}))
    assert file.order == [
        "claim a,write a,claim b,write b sync=True after 0 writes",
        "write a,write b sync=False after 2 writes",
    ]


def test_restore_goes_backwards() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b"), pod("c"))
    actuator = Actuator(driver, MemoryJournal())
    actuator.perform(plan(dict.fromkeys(KNOBS, "10"), texts(driver, KNOBS), actuator.journal, {}))
    actuator.restore_all()
    assert [knob.path for knob, _ in driver.writes] == ["a", "b", "c", "c", "b", "a"]


def test_the_journal_stays_small_however_often_is_written() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    file = MemoryJournal()
    actuator = Actuator(driver, file)
    for number in range(2000):
        desired = {KNOBS[0]: str(100 + number % 7)}
        actuator.perform(plan(desired, texts(driver, desired), actuator.journal, {}))
    assert len(file.records) < 600
    assert Actuator(driver, file).recover().exact
    assert driver.limit("a") == "max"


def test_what_could_not_be_given_back_is_tried_again_at_the_next_start() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b"))
    file = MemoryJournal()
    actuator = Actuator(driver, file)
    actuator.perform(plan(dict.fromkeys(KNOBS[:2], "10"), texts(driver, KNOBS[:2]), actuator.journal, {}))
    driver.refused.add(KNOBS[0])
    assert not actuator.restore_all().exact
    assert (driver.limit("a"), driver.limit("b")) == ("10", "max")
    driver.refused.clear()
    again = Actuator(driver, file)
    assert again.recover().exact
    assert driver.limit("a") == "max"
    assert len(Actuator(driver, file).file.load()) == 0


def test_what_could_not_be_given_back_at_the_start_is_given_back_while_it_runs() -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"))
    file = MemoryJournal()
    first = Actuator(driver, file)
    first.perform(plan({KNOBS[0]: "10"}, texts(driver, KNOBS[:1]), first.journal, {}))
    driver.refused.add(KNOBS[0])
    second = Actuator(driver, file)
    assert not second.recover().exact
    assert second.journal.claim_of(KNOBS[0]) is not None
    driver.refused.clear()
    second.perform(plan(dict.fromkeys(second.journal.knobs()), texts(driver, KNOBS[:1]), second.journal, {}))
    assert driver.limit("a") == "max"
    assert second.restore_all().exact


def test_the_journal_of_an_earlier_boot_is_about_files_that_are_gone(tmp_path: Path) -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), limit="77")
    path, knob = tmp_path / "journal", KNOBS[0]
    before = Actuator(driver, LinesJournal(path, boot_id="first"))
    before.recover()
    before.perform(plan({knob: "max"}, {knob: "77"}, before.journal, {}))
    before.file.close()
    assert LinesJournal(path, boot_id="first").load().knobs() == (knob,)
    assert LinesJournal(path).load().knobs() == (knob,), "an unknown boot is taken for the same"
    after = Actuator(driver, LinesJournal(path, boot_id="second"))  # the file made anew holds max by default
    assert after.recover().exact
    assert driver.limit("a") == "max"
    assert LinesJournal(path, boot_id="first").load().knobs() == ()


def test_a_journal_of_a_version_without_boot_ids_is_restored(tmp_path: Path) -> None:
    file = LinesJournal(tmp_path / "journal")
    file.append([record("claim", KNOBS[0], "max"), record("write", KNOBS[0], "10")], sync=True)
    file.close()
    assert LinesJournal(tmp_path / "journal", boot_id="now").load().knobs() == (KNOBS[0],)
