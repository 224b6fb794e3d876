"""Folders and files of a state directory: owned by the user of this process, closed to others, and never links.

A process that runs as root may be given a state directory in which another user can create names. A link there would
make root write elsewhere, so that such a directory is refused and no file in it is opened through a link.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from slackwater.model.errors import Misconfigured

PRIVATE_FOLDER: Final = 0o700
SHARED_FOLDER: Final = 0o755
"""For folders through which other users pass: the embedded PostgreSQL does not run as root."""
PRIVATE_FILE: Final = 0o600
_OTHERS_WRITE = 0o022


def own_folder(folder: Path, mode: int = PRIVATE_FOLDER) -> None:
    """Creates a folder with this mode, or checks one that is there and removes permissions beyond the mode.

    Raises Misconfigured, with the remedy, where another user owns the folder or a name in it, or all may write to it.
    Its group may have written to it: with umask 002 every new folder is so.
    Raises OSError where it cannot be made.
    """
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    _require_owned(folder, folder.lstat())  # a link that this user has made is followed
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _require_owned(folder, status)
        is_own = status.st_uid == os.geteuid()
        if is_own and status.st_mode & stat.S_IWGRP:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~stat.S_IWGRP)
            status = os.fstat(descriptor)
        if status.st_mode & _OTHERS_WRITE:
            raise Misconfigured(f"{folder}: other users may write to it; chmod -R go-w {folder}")
        with os.scandir(descriptor) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed since
                    _require_owned(folder / entry.name, entry.stat(follow_symlinks=False))
        if is_own and stat.S_IMODE(status.st_mode) & ~mode:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & mode)
    finally:
        os.close(descriptor)


def _require_owned(path: Path, status: os.stat_result) -> None:
    own = os.geteuid()
    if status.st_uid not in (own, 0):
        raise Misconfigured(
            f"{path} belongs to {_named(status.st_uid)}, and this process runs as {_named(own)}: run as that user, "
            f"choose another state directory, or take it over: chown -Rh {own} {path}"
        )


def _named(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def open_owned(file: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
    """Returns a descriptor that child processes do not inherit. Raises OSError, ELOOP where the file is a link."""
    return os.open(file, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


def read_regular(file: Path, most_bytes: int) -> bytes:
    """Returns the content of a file, at most one byte more than allowed. Raises OSError, EINVAL for a pipe or a device:
    these may block the reader or never end.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer opens at once
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(most_bytes + 1)
    finally:
        os.close(descriptor)


def open_new(file: Path, mode: int = PRIVATE_FILE) -> int:
    """Returns a descriptor of a file made now, in place of one (or a link) that is there. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return open_owned(file, flags, mode)
    except FileExistsError:  # a killed process has left it
        file.unlink()
        return open_owned(file, flags, mode)


def write_atomically(file: Path, text: str, mode: int = PRIVATE_FILE) -> None:
    """Write a file by rename: readers see the old content or the new one, and the mode applies from the first byte."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(open_new(draft, mode), "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), mode)  # whatever the umask is
        stream.write(text)
    draft.replace(file)
