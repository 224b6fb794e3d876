"""The description of the API as committed. tools/checks.py holds it to the code; making it takes each lane seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "contracts" / "openapi" / "slackwater.json"
STREAM = "/v1/stream"
NAME = "text"
"""In a path, as in a sample body: a document has the name of its path."""
METHODS = ("get", "put", "post", "patch", "delete")


@cache
def described() -> dict[str, Any]:
    """To be read only."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


@cache
def operations() -> Mapping[str, tuple[str, str, Mapping[str, Any]]]:
    """Method, path and description of every operation but the stream, by `METHOD path`."""
    return {
        f"{method.upper()} {path}": (method, path, item[method])
        for path, item in described()["paths"].items()
        for method in METHODS
        if method in item and path != STREAM
    }


def filled(path: str, values: Mapping[str, str] | None = None) -> str:
    """The path with a name for every parameter."""
    while "{" in path:
        name = path[path.index("{") + 1 : path.index("}")]
        value = (values or {}).get(name.split(":")[0], NAME)
        path = path.replace("{" + name + "}", value, 1)
    return path
