"""Replacing a file so that a crash leaves the old or the new content, never a mixture."""

from __future__ import annotations

import os
from pathlib import Path


def replace_synced(path: Path, content: bytes) -> None:
    """Write beside, sync, rename, sync the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
