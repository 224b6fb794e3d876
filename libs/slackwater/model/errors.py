"""The error tree, divided by the reaction that an error needs.

    SlackwaterError
    ├── InvalidInput        the caller corrects the value; a retry of the same value fails again
    ├── NotFound            the caller named an object that does not exist (any more)
    ├── Conflict            the caller reads again, decides again and writes again
    │   └── Fenced          another replica owns the partition; this one drops its state and writes nothing
    ├── Unavailable         a dependency does not answer; a retry with backoff may succeed
    │   └── StreamFull      one stream of the broker is full; the others take messages
    └── Misconfigured       the operator changes the machine or the settings, which forbid the request

Each class has one stable `code` per meaning, which is never reused. Messages name the field, the value, what is allowed
and what to do. A failed assertion or any other exception is a defect of Slackwater and not part of the tree.
"""

from __future__ import annotations


class SlackwaterError(Exception):
    """Base of all expected errors; `code` is stable and machine-readable."""

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        if code is not None:
            self.code = code


class InvalidInput(SlackwaterError):
    """A value is not allowed; `field` names it. A retry does not help."""

    code = "invalid_input"


class NotFound(SlackwaterError):
    """The named object does not exist."""

    code = "not_found"


class Conflict(SlackwaterError):
    """The object changed since it was read."""

    code = "conflict"


class Fenced(Conflict):
    """This replica does not hold the lease on the partition. Nothing was written; the owner does the work."""

    code = "fenced"


class Unavailable(SlackwaterError):
    """A dependency does not answer; the same call may succeed later."""

    code = "unavailable"


class StreamFull(Unavailable):
    """A stream has as many bytes as it may and refuses new messages. What goes to other streams need not wait."""


class Misconfigured(SlackwaterError):
    """The environment or the settings forbid the request; the message says what to change."""

    code = "misconfigured"
