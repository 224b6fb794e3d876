"""The journal, the ledger and the documents on a disk that loses what was not synced, is full, or is read-only."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.machine.disk import Disk

from slackwater.agent.adapters.durable import replace_file
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.domain.journal import record
from slackwater.agent.domain.knobs import Knob
from slackwater.model.errors import Unavailable

FOLDER = Path("/state/agent")
A, B = Knob("/a", "cpu_limit"), Knob("/b", "cpu_limit")


@given(st.randoms(use_true_random=False), st.integers(0, 400))
def test_a_synced_claim_survives_every_power_failure(rng: Random, room: int) -> None:
    disk = Disk()
    journal = LinesJournal(FOLDER / "journal", disk)
    journal.append([record("claim", A, "max"), record("write", A, "10")], sync=True)
    journal.append([record("write", A, "20")], sync=False)
    disk.room = room
    try:
        journal.append([record("claim", B, "77"), record("write", B, "10")], sync=True)
        claimed = True
    except Unavailable:
        claimed = False
    disk.power_failed(rng)
    found = LinesJournal(FOLDER / "journal", disk).load()
    first, second = found.claim_of(A), found.claim_of(B)
    assert first is not None
    assert first.previous == "max"
    assert first.written[0] == "10"
    if claimed:
        assert second is not None
        assert second.previous == "77"


@given(st.randoms(use_true_random=False))
def test_a_replaced_file_is_the_old_or_the_new_one_after_a_power_failure(rng: Random) -> None:
    disk, path = Disk(), FOLDER / "file"
    replace_file(path, b"old", disk)
    disk.make_directory(FOLDER)
    draft = disk.open(FOLDER / "file.draft", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    disk.write(draft, b"newer")
    disk.sync(draft)
    disk.rename(FOLDER / "file.draft", path)
    disk.power_failed(rng)
    assert disk.read(path) in (b"old", b"newer")


def test_a_file_replaced_without_a_sync_outlives_the_process() -> None:
    """As the ledger is when an eviction begins: pods do not outlive a power failure."""
    path, disk = FOLDER / "evictions.json", Disk()
    replace_file(path, b"old", disk)
    before = disk.syncs
    replace_file(path, b"new", disk, sync=False)
    disk.process_died()
    assert (disk.read(path), disk.syncs) == (b"new", before)


def test_a_disk_without_syncs_loses_the_claim_in_some_run() -> None:
    """The simulated disk can fail the first test: what was not synced may be gone."""
    lost = 0
    for seed in range(20):
        disk = Disk(loses_syncs=True)
        LinesJournal(FOLDER / "journal", disk).append([record("claim", A, "max")], sync=True)
        disk.power_failed(Random(seed))
        lost += LinesJournal(FOLDER / "journal", disk).load().claim_of(A) is None
    assert lost > 0


def test_a_torn_line_on_a_read_only_disk_keeps_no_claim_from_being_found() -> None:
    disk = Disk()
    journal = LinesJournal(FOLDER / "journal", disk)
    journal.append([record("claim", A, "max")], sync=True)
    journal.close()
    descriptor = disk.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND)
    disk.write(descriptor, b'{"op":"cla')
    disk.close(descriptor)
    disk.is_read_only = True
    again = LinesJournal(FOLDER / "journal", disk)
    assert again.load().claim_of(A) is not None
    disk.is_read_only = False
    again.append([record("claim", B, "5")], sync=True)
    assert set(LinesJournal(FOLDER / "journal", disk).load().knobs()) == {A, B}


def test_a_ledger_that_cannot_be_read_or_moved_does_not_stop_the_agent() -> None:
    disk = Disk()
    replace_file(FOLDER / "evictions.json", b"{", disk)
    disk.is_read_only = True
    assert JsonLedger(FOLDER / "evictions.json", disk).load() == {}
    with pytest.raises(Unavailable):
        JsonLedger(FOLDER / "evictions.json", disk).save({})
