"""The error tree, cut by who must react.

    SlackwaterError
    ├── InvalidInput        the caller: correct the value; retrying the same is useless
    ├── NotFound            the caller: the named thing is not there (or not any more)
    ├── Conflict            the caller: read again, decide again, write again
    │   └── Fenced          this replica: another one owns the partition now; forget its state, write nothing
    ├── Unavailable         nobody yet: a dependency is away; a retry with delay may succeed
    └── Misconfigured       the operator: the machine or the settings do not allow what was asked

Each class has one stable `code` per meaning (never reused); messages name the field, the value, what is allowed
and what to do. A failed assertion or any other exception is a defect of ours and is not part of the tree.
"""

from __future__ import annotations


class SlackwaterError(Exception):
    """Base of all errors that Slackwater raises on purpose; `code` is stable and machine-readable."""

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        if code is not None:
            self.code = code


class InvalidInput(SlackwaterError):
    """A value that will never be accepted; `field` names it."""

    code = "invalid_input"


class NotFound(SlackwaterError):
    """The named object does not exist."""

    code = "not_found"


class Conflict(SlackwaterError):
    """The object changed since it was read."""

    code = "conflict"


class Fenced(Conflict):
    """The lease on a partition is not held (any more): nothing was written, its owner will do the work."""

    code = "fenced"


class Unavailable(SlackwaterError):
    """A dependency does not answer; the same call may succeed later."""

    code = "unavailable"


class Misconfigured(SlackwaterError):
    """The environment or the settings forbid what was asked; the message says what would allow it."""

    code = "misconfigured"
