"""A disk under the agent's journal, ledger and documents: what was not synced may be lost with the power.

A crash of a process loses nothing that was written. A power failure keeps, of every file, what was synced last and any
part of what was written after it, cut anywhere; of every directory, the names as synced last, or a later state.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.world.machine.cgroups import refused


@dataclass(slots=True, eq=False)
class _Inode:
    content: bytes = b""
    synced: bytes = b""


@dataclass(slots=True)
class _Open:
    inode: _Inode | None
    """None: a directory."""
    path: Path
    is_append: bool
    position: int = 0


@dataclass(slots=True)
class Disk:
    """See slackwater.agent.adapters.disk_files.DiskFiles. `room`: bytes that still fit; None = no bound."""

    room: int | None = None
    is_read_only: bool = False
    loses_syncs: bool = False
    """A disk that reports a sync before it has done it."""
    syncs: int = 0
    _names: dict[Path, _Inode] = field(default_factory=dict)
    _synced_names: dict[Path, _Inode] = field(default_factory=dict)
    _folders: set[Path] = field(default_factory=set)
    _open: dict[int, _Open] = field(default_factory=dict)
    _next: int = 3

    # DiskFiles

    def read(self, path: Path) -> bytes:
        return self._inode(path).content

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_DIRECTORY:
            if path not in self._folders:
                raise refused(errno.ENOENT, str(path))
            return self._opened(_Open(None, path, is_append=False))
        is_writing = flags & (os.O_WRONLY | os.O_RDWR)
        if is_writing:
            self._require_writable(path)
        inode = self._names.get(path)
        if inode is not None and flags & os.O_EXCL:
            raise refused(errno.EEXIST, str(path))
        if inode is None:
            if not flags & os.O_CREAT or path.parent not in self._folders:
                raise refused(errno.ENOENT, str(path))
            inode = self._names[path] = _Inode()
        if is_writing and flags & os.O_TRUNC:
            self._free(len(inode.content))
            inode.content = b""
        return self._opened(_Open(inode, path, bool(flags & os.O_APPEND)))

    def write(self, descriptor: int, content: bytes) -> int:
        file, inode = self._file(descriptor)
        self._require_writable(file.path)
        taken = len(content) if self.room is None else min(self.room, len(content))
        if content and not taken:
            raise refused(errno.ENOSPC, str(file.path))
        start = len(inode.content) if file.is_append else file.position
        inode.content = inode.content[:start] + content[:taken] + inode.content[start + taken :]
        file.position = start + taken
        self._free(-taken)
        return taken

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.loses_syncs:
            return
        file = self._open[descriptor]
        if file.inode is not None:
            file.inode.synced = file.inode.content
            return
        for path in [path for path in self._synced_names if path.parent == file.path]:
            del self._synced_names[path]
        self._synced_names |= {path: inode for path, inode in self._names.items() if path.parent == file.path}

    def size(self, descriptor: int) -> int:
        return len(self._file(descriptor)[1].content)

    def truncate(self, descriptor: int, size: int) -> None:
        file, inode = self._file(descriptor)
        self._require_writable(file.path)
        self._free(len(inode.content) - size)
        inode.content = inode.content[:size]

    def close(self, descriptor: int) -> None:
        if self._open.pop(descriptor, None) is None:
            raise refused(errno.EBADF)

    def rename(self, path: Path, target: Path) -> None:
        self._require_writable(path)
        inode = self._inode(path)
        if (replaced := self._names.get(target)) is not None:
            self._free(len(replaced.content))
        del self._names[path]
        self._names[target] = inode

    def remove(self, path: Path) -> None:
        self._require_writable(path)
        inode = self._names.pop(path, None)
        if inode is not None:
            self._free(len(inode.content))

    def make_directory(self, path: Path) -> None:
        if path not in self._folders:
            self._require_writable(path)
            self._folders.update((path, *path.parents))

    # what happens to it

    def process_died(self) -> None:
        """The descriptors of the process are closed; what it wrote stays."""
        self._open.clear()

    def power_failed(self, rng: Random) -> None:
        """Lose what was not synced, or a part of it."""
        self._open.clear()
        names = dict(self._synced_names)
        unsynced = {path for path in names.keys() | self._names.keys() if names.get(path) is not self._names.get(path)}
        for path in sorted(unsynced):
            if rng.random() < 0.5:  # the file system had got to it already
                inode = self._names.get(path)
                names.pop(path, None)
                if inode is not None:
                    names[path] = inode
        for path in sorted(names):
            names[path] = _survived(names[path], rng)
        self._names, self._synced_names = names, dict(names)

    def files(self) -> dict[str, bytes]:
        """All files by path, for observers."""
        return {str(path): inode.content for path, inode in sorted(self._names.items())}

    def _inode(self, path: Path) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise refused(errno.ENOENT, str(path))
        return inode

    def _file(self, descriptor: int) -> tuple[_Open, _Inode]:
        file = self._open.get(descriptor)
        if file is None or file.inode is None:
            raise refused(errno.EBADF)
        return file, file.inode

    def _opened(self, file: _Open) -> int:
        self._next += 1
        self._open[self._next] = file
        return self._next

    def _require_writable(self, path: Path) -> None:
        if self.is_read_only:
            raise refused(errno.EROFS, str(path))

    def _free(self, size: int) -> None:
        if self.room is not None:
            self.room += size


def _survived(inode: _Inode, rng: Random) -> _Inode:
    """What is read of a file after the power came back: as synced, as written, or cut in between."""
    if inode.content == inode.synced or rng.random() < 0.4:
        kept = inode.synced
    elif inode.content.startswith(inode.synced):
        kept = inode.content[: rng.randint(len(inode.synced), len(inode.content))]
    else:
        kept = inode.content
    return _Inode(kept, kept)
