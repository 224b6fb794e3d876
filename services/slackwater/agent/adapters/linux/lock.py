"""One agent per state directory: an flock that the kernel drops with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from slackwater.model.errors import Conflict
from slackwater.runtime.owned_files import open_owned, own_folder

_NAME = "agent.lock"
_ATTEMPTS = 5


class AgentLock:
    """Held from open to close of an agent."""

    def __init__(self, agent_dir: Path) -> None:
        self._path = agent_dir / _NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises Conflict when another live agent has it, Misconfigured where another user may write to the folder."""
        own_folder(self._path.parent)
        descriptor = open_owned(self._path, os.O_RDWR | os.O_CREAT)
        for _ in range(_ATTEMPTS):  # `agent_runs` holds the lock for an instant when it looks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            self._descriptor = descriptor
            return
        os.close(descriptor)
        raise Conflict(f"another agent already works with {self._path.parent}; stop it or give another --state-dir")

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def agent_runs(agent_dir: Path) -> bool:
    """Whether a live agent holds the lock of this directory."""
    try:
        descriptor = os.open(agent_dir / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
