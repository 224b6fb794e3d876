"""Choices that several verbs offer. Imported by `--help`, so it imports nothing."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """From which importance on the log is shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
