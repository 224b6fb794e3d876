"""Removes all that earlier runs left in a state directory and on the machine, so that a run starts without history."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from slackwater.agent.leftovers import remove_leftovers
from slackwater.model.errors import Misconfigured
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.state import INSTANCE_ID, LOCK, StateDir


def remove_of_another_user(state: StateDir) -> None:
    """Remove, as root, the directory of an earlier run by another user, which would be refused: `sudo make run` after
    `make run`. One that is in use stays."""
    folder = state.path
    if os.geteuid() == 0 and folder.is_dir() and folder.lstat().st_uid != 0 and state.holder() is None:
        shutil.rmtree(folder)


def remove_history(state_dir: Path, warn: Callable[[str], None]) -> None:
    """Remove leftover processes, cgroups and every file except the lock. Call only while holding the directory.

    Instances in folders below it (the demo's further agents) are removed with it. `warn` gets one line for each cgroup
    that stays. Raises Misconfigured where another agent works in one of them, or files belong to another user.
    """
    for folder, instance in list(_instances(state_dir)):
        for cgroup in remove_leftovers(folder, instance):
            warn(f"an earlier run left {cgroup}, and a process in it does not end: it uses CPU and memory still")
    EmbeddedPostgres(state_dir).stop_orphan()
    EmbeddedNats(state_dir / "nats").stop_orphan()
    for path in state_dir.iterdir():
        if path.name != LOCK:
            _remove(path)


def _instances(state_dir: Path) -> Iterator[tuple[Path, str]]:
    """Yields each folder that has named cgroups, with their name: PostgreSQL and NATS keep none."""
    for file in (*state_dir.glob(INSTANCE_ID), *state_dir.glob(f"*/**/{INSTANCE_ID}")):
        if name := file.read_text().strip():
            yield file.parent, name


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except PermissionError as error:
        raise Misconfigured(
            f"cannot remove {error.filename or path} of an earlier run: it belongs to another user; "
            f"remove {path.parent} as that user"
        ) from None
