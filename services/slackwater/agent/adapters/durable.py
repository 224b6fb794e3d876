"""Replacing a file so that a crash or a full disk leaves the old or the new content, never a mixture."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.model.errors import Unavailable

NOT_WRITTEN = "journal_not_written"
"""Stable code: a record that has to be on disk before the action could not be written."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def replace_file(path: Path, content: bytes, disk: DiskFiles = OS_FILES, *, sync: bool = True) -> None:
    """Write beside, sync, rename, sync the directory. Without `sync` it waits for no disk: a crash of the process loses
    nothing, a power failure may leave a torn file. Raises Unavailable where the disk is full or refuses."""
    draft = path.with_name(path.name + ".draft")
    try:
        disk.make_directory(path.parent)
        descriptor = _open_new(draft, disk)
        try:
            write_all(descriptor, content, disk)
            if sync:
                disk.sync(descriptor)
        finally:
            disk.close(descriptor)
        disk.rename(draft, path)
        if sync:
            sync_directory(path.parent, disk)
    except OSError as error:
        with suppress(OSError):
            disk.remove(draft)
        raise not_written(path, error) from error


def _open_new(draft: Path, disk: DiskFiles) -> int:
    try:
        return disk.open(draft, _NEW)
    except FileExistsError:  # a killed process has left it
        disk.remove(draft)
        return disk.open(draft, _NEW)


def write_all(descriptor: int, content: bytes, disk: DiskFiles = OS_FILES) -> None:
    """A disk that has just become full takes a part and says so by the count alone."""
    while content:
        content = content[disk.write(descriptor, content) :]


def not_written(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"{path} cannot be written ({error.strerror}): make room, or let the agent write", code=NOT_WRITTEN
    )


def sync_directory(directory: Path, disk: DiskFiles = OS_FILES) -> None:
    """Make names in a directory durable."""
    descriptor = disk.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
