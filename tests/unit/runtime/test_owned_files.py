"""Folders and files of a state directory: their owner, their modes, and links in their place."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from slackwater.model.errors import Misconfigured
from slackwater.runtime.owned_files import SHARED_FOLDER, own_folder, write_atomically
from slackwater.runtime.state import StateDir

OTHER = pwd.getpwuid(65534)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: run as root")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_agent_has_a_folder_that_others_cannot_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = StateDir(tmp_path / "state").agent_folder()
    finally:
        os.umask(before)
    assert (mode_of(folder), mode_of(folder.parent)) == (0o700, 0o755)


def test_a_folder_that_an_older_version_left_readable_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o755)
    (folder / "journal").touch()
    own_folder(folder)
    assert mode_of(folder) == 0o700
    (tmp_path / "narrow").mkdir(mode=0o700)
    own_folder(tmp_path / "narrow", SHARED_FOLDER)
    assert mode_of(tmp_path / "narrow") == 0o700


def test_a_folder_of_umask_002_is_closed_to_its_group(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    folder.chmod(0o775)
    own_folder(folder, SHARED_FOLDER)
    assert folder.stat().st_mode & 0o777 == SHARED_FOLDER


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    for open_it in (StateDir(folder).agent_folder, StateDir(folder).hold().__enter__):
        with pytest.raises(Misconfigured, match=f"{folder}: other users may write to it; chmod -R go-w {folder}"):
            open_it()
    assert list(folder.iterdir()) == []


@needs_root
def test_a_folder_of_another_user_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, OTHER.pw_uid, OTHER.pw_gid)
    said = f"{folder} belongs to user {OTHER.pw_name}, and this process runs as user root: .* chown -Rh 0 {folder}"
    for open_it in (StateDir(folder).agent_folder, StateDir(folder).hold().__enter__):
        with pytest.raises(Misconfigured, match=said):
            open_it()
    assert list(folder.iterdir()) == []


@needs_root
@pytest.mark.parametrize("place", ["planted", "agent", "agent/planted"])
def test_a_name_that_another_user_has_planted_is_refused(tmp_path: Path, place: str) -> None:
    folder, victim = StateDir(tmp_path / "state").agent_folder(), tmp_path / "victim"
    if place == "agent":
        folder.rmdir()
    victim.mkdir()
    planted = tmp_path / "state" / place
    planted.symlink_to(victim)
    os.chown(planted, OTHER.pw_uid, OTHER.pw_gid, follow_symlinks=False)
    with pytest.raises(Misconfigured, match=f"{planted} belongs to user {OTHER.pw_name}"):
        StateDir(tmp_path / "state").agent_folder()
    assert list(victim.iterdir()) == []


def test_a_state_directory_may_be_a_link_of_its_user(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    assert StateDir(tmp_path / "state").agent_folder().resolve() == tmp_path / "disk" / "agent"


def test_a_link_in_place_of_a_draft_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "instance-id"
    victim.write_text("of another program")
    (tmp_path / f".{file.name}.{os.getpid()}").symlink_to(victim)
    write_atomically(file, "new")
    assert (file.read_text(), file.is_symlink(), mode_of(file)) == ("new", False, 0o600)
    assert victim.read_text() == "of another program"
    file.unlink()
    file.symlink_to(victim)
    write_atomically(file, "newer", 0o644)
    assert (file.read_text(), file.is_symlink(), mode_of(file)) == ("newer", False, 0o644)
    assert victim.read_text() == "of another program"
