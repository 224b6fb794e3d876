"""Choices of the command. Imported by `--help`, so it imports nothing heavy."""

from __future__ import annotations

from enum import StrEnum


class Resource(StrEnum):
    """CPU is in milli-cores, memory in bytes."""

    CPU = "cpu"
    MEMORY = "memory"


class TraceFormat(StrEnum):
    """One reader each."""

    BITBRAINS = "bitbrains"
    GOOGLE2011 = "google2011"
    ALIBABA2018 = "alibaba2018"
    CSV = "csv"
