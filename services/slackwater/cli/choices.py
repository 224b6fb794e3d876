"""Choices that several verbs offer. `--help` imports this module, so it imports nothing heavy."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """The least severe level that the log shows."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
