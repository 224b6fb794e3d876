"""What an earlier run of another user left is no obstacle to root: `sudo make run` after `make run`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slackwater.cli.fresh_start import remove_of_another_user
from slackwater.runtime.state import StateDir

OTHER = 12_345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: run the tests as root")


def left_behind(folder: Path, owner: int) -> Path:
    """Returns a file outside of the folder that a link in it names."""
    outside = folder.parent / "outside"
    outside.write_text("kept")
    (folder / "agent").mkdir(parents=True)
    (folder / "agent/link").symlink_to(outside)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    return outside


@needs_root
def test_root_removes_it_and_follows_no_link(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "demo")
    outside = left_behind(state.path, OTHER)
    remove_of_another_user(state)
    assert not state.path.exists()
    assert outside.read_text() == "kept"
    with state.hold():
        pass


@needs_root
def test_its_own_stays(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "demo")
    left_behind(state.path, 0)
    remove_of_another_user(state)
    assert state.path.is_dir()


@needs_root
def test_one_that_is_in_use_stays(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "demo")
    with state.hold():
        os.chown(state.path, OTHER, OTHER)
        remove_of_another_user(state)
        assert state.path.is_dir()
