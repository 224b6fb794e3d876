"""The agent's files: closed to others from their first byte, and written through no link that was planted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_fakes import pod
from agent_world import no_database
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.agent.adapters.durable import replace_file
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.linux.lock import AgentLock
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.domain.journal import record
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.runtime.platform import Platform

CLAIM = record("claim", Knob("a", "cpu_limit"), "max")


def registered(folder: Path) -> None:
    registry, entry = PodRegistry(folder / "pods"), Entry(pod("a"), process_of(os.getpid()), "test")
    registry.reserve(entry)
    registry.add(entry)
    registry.note_oom_kills(entry.pod, 1)


WRITERS: dict[str, Callable[[Path], None]] = {
    "evictions.json": lambda folder: replace_file(folder / "evictions.json", b"[]"),
    "journal": lambda folder: LinesJournal(folder / "journal").append([CLAIM], sync=True),
    "agent.lock": lambda folder: AgentLock(folder).acquire(),
    "pods/a.json": registered,
    "oom-kills": registered,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_is_for_the_agent_alone(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("evictions.json", "evictions.json.draft"),
        ("evictions.json", "evictions.json"),
        ("journal", "journal"),
        ("agent.lock", "agent.lock"),
        ("pods/a.json", f"pods/.a.json.{os.getpid()}"),
        ("pods/a.json", f"pods/.a.pending.{os.getpid()}"),
        ("oom-kills", "oom-kills"),
    ],
)
def test_a_planted_link_changes_no_other_file(tmp_path: Path, name: str, planted: str) -> None:
    victim, folder = tmp_path / "passwd", tmp_path / "agent"
    victim.write_text("root:x:0:0\n")
    (folder / "pods").mkdir(parents=True)
    (folder / planted).symlink_to(victim)
    try:
        WRITERS[name](folder)
    except (Unavailable, OSError):
        assert (folder / planted).is_symlink()
    assert victim.read_text() == "root:x:0:0\n"


def test_an_agent_does_not_start_in_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Misconfigured, match=f"{tmp_path}: other users may write to it; chmod"):
        build(AgentSettings(), Platform(MemoryBus(), FakeClock(), no_database, tmp_path))
    assert list(tmp_path.iterdir()) == []
