"""Classifies exceptions of decoders and handlers: caused by the message, or by the machine."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

from slackwater.bus.codec.cloudevents import subject_key

HANDLER_FAILED = "handler_failed"
DECODER_FAILED = "decoder_failed"
TEXT_CHARACTERS = 300

_SCARCE = frozenset({errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EROFS})
_OURS = "slackwater"


def is_of_machine(error: BaseException) -> bool:
    """Returns whether the machine failed and not the message: no memory, no descriptors, no
    connection, a full disk. Such a message is delivered again and counts towards `max_deliver`.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_of_machine(part) for part in error.exceptions)
    if isinstance(error, (MemoryError, ConnectionError, TimeoutError)):
        return True
    return isinstance(error, OSError) and error.errno in _SCARCE


def detail_of(error: BaseException) -> str:
    """Returns `Type at file:line: text`; the file is the innermost of Slackwater's that raised, the
    text is bounded.
    """
    return f"{type(error).__name__} at {place_of(error)}: {_text(error)}"


def place_of(error: BaseException) -> str:
    """Returns file and line of the innermost Slackwater frame, else of the innermost frame; "?" if
    it was never raised.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    ours = [(name, line) for name, line in frames if _OURS in Path(name).parts and "tests" not in Path(name).parts]
    if not frames:
        return "?"
    name, line = (ours or frames)[-1]
    return f"{_short(name)}:{line}"


def node_of(subject: str) -> str:
    """Returns the node in a subject: the first part of its key; empty if it has none."""
    return subject_key(subject).split("/")[0]


def _short(name: str) -> str:
    """Returns the path from the package on; for a foreign file its name."""
    parts = Path(name).parts
    if _OURS not in parts:
        return parts[-1]
    return "/".join(parts[len(parts) - 1 - parts[::-1].index(_OURS) :])


def _text(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_CHARACTERS]
    except Exception:  # noqa: BLE001 - an integer of 5,000 digits among its arguments, say: it must not fail again
        return "(its text cannot be written)"
