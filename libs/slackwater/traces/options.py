"""Choices of the command. Imported by `--help`, so it imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TraceResource(StrEnum):
    """CPU is in milli-cores, memory in bytes."""

    CPU = "cpu"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class TraceUnit:
    """The unit of amounts in the trace: 1 is `step` milli-cores or bytes."""

    name: str
    step: float


UNITS = {TraceResource.CPU: TraceUnit("cores", 1000.0), TraceResource.MEMORY: TraceUnit("GiB", 2.0**30)}


class TraceFormat(StrEnum):
    """The built-in trace formats; `readers.formats` has their readers, and those of other distributions."""

    BITBRAINS = "bitbrains"
    PLANETLAB = "planetlab"
    AZURE = "azure"
    ALIBABA2018 = "alibaba2018"
    ALIBABA2018_CONTAINERS = "alibaba2018-containers"
    GOOGLE2011 = "google2011"
    GOOGLE2019 = "google2019"
    CSV = "csv"
