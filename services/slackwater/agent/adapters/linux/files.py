"""Kernel files read every second: opened once, read with pread, closed when their cgroup goes.

The number kept is bounded, because reading a limit or a list of processes, connecting, and writing the journal need
descriptors too. Files beyond the bound are opened each time.
"""

from __future__ import annotations

import os
import resource

_CHUNK = 8192
_DESCRIPTORS_WANTED = 4096


class KeptFiles:
    """Descriptors by path. Three times cheaper than open-read-close, which is what the agent's budget rests on."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}
        self.at_most: int | None = None
        """How many may be kept; None = all."""

    def __len__(self) -> int:
        return len(self._descriptors)

    def read(self, path: str) -> bytes | None:
        """The whole file now; None if it is not there (any more) or the kernel refuses to answer."""
        descriptor = self._descriptors.get(path)
        try:
            if descriptor is None:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                if self.at_most is not None and len(self._descriptors) >= self.at_most:
                    return _read_and_close(descriptor)
                self._descriptors[path] = descriptor
            return os.pread(descriptor, _CHUNK, 0)
        except OSError:  # ENOENT, ENODEV: the cgroup is gone; EOPNOTSUPP: pressure is switched off
            self.close_file(path)
            return None

    def close_file(self, path: str) -> None:
        """Close one file, if open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close all."""
        for path in tuple(self._descriptors):
            self.close_file(path)


def _read_and_close(descriptor: int) -> bytes:
    try:
        return os.pread(descriptor, _CHUNK, 0)
    finally:
        os.close(descriptor)


def raise_descriptor_limit() -> int:
    """Six kept descriptors per pod: 110 pods do not fit into half of the usual soft limit. Returns what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return _DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft
