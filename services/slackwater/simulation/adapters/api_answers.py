"""Reads paged answers of an installation's API and converts them to model values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote

from slackwater.model.quantities import Resources

Said = Mapping[str, Any]
"""An object of the API."""


class ApiReader(Protocol):
    """Read access to the API of an installation."""

    def get(self, path: str, params: Mapping[str, str | int | None] | None = None) -> Any: ...


def windows_of(reads: ApiReader, node: str, since: datetime, until: datetime) -> Iterator[Said]:
    path, begin = f"/v1/nodes/{quote(node, safe='')}/windows", since.isoformat()
    while True:
        page = reads.get(path, {"since": begin, "until": until.isoformat()})
        yield from page["items"]
        if not page["continue"] or page["continue"] == begin:
            return
        begin = page["continue"]


def pages_of(reads: ApiReader, path: str, params: Mapping[str, str | int]) -> Iterator[Said]:
    token = None
    while True:
        page = reads.get(path, {**params, "continue": token})
        yield from page["items"]
        token = page["continue"]
        if token is None:
            return


def resources_of(said: Mapping[str, int]) -> Resources:
    return Resources(int(said["cpu_milli"]), int(said["memory_bytes"]))


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)
