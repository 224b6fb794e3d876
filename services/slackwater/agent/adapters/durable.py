"""Replacing a file so that a crash or a full disk leaves the old or the new content, never a mixture."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from slackwater.model.errors import Unavailable

NOT_WRITTEN = "journal_not_written"
"""Stable code: a record that has to be on disk before the action could not be written."""


def replace_synced(path: Path, content: bytes) -> None:
    """Write beside, sync, rename, sync the directory. Raises Unavailable where the disk is full or refuses."""
    draft = path.with_name(path.name + ".draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise not_written(path, error) from error


def not_written(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"{path} cannot be written ({error.strerror}): make room, or let the agent write", code=NOT_WRITTEN
    )


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
