"""Linux prctl calls that tie the life of a process tree to the process that started it."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Request `number` when the thread that started this process ends. The request survives exec,
    not fork.

    A parent that ended before the call is not detected: compare `os.getppid()` from before and
    after.
    """
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become a child subreaper: orphaned descendants are reparented to this process, so none leaves
    the process tree.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)
