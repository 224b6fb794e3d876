"""Reads YAML that users give: bounded in size, without duplicate keys; policy files also restricted to JSON's values.

An alias is one object in memory but is written out when the document is sent, so the limits count it as what it stands
for. The size of a node is known as soon as it is composed, because its parts are complete by then.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.model.errors import InvalidInput

MOST_BYTES: Final = 8 << 20
"""Of a file, and of its texts with every alias written out. A request body may have half of it."""
MOST_VALUES: Final = 250_000
"""Keys and values of a file with every alias written out: about 800 pods as `kubectl get pods -o yaml` prints them."""
MOST_LEVELS: Final = 64
MOST_DIGITS: Final = 64
"""Characters of a number, because YAML's base 60 (`1:1:1`) costs the square of its length."""
_MOST_SHOWN: Final = 600
_NAMES = {"date": "a date", "datetime": "a time", "bytes": "binary", "set": "a set"}
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _RefusedError(Exception):
    """A node exceeds a limit or contains itself; `str` names the line and the remedy."""


class _Size(NamedTuple):
    """A node with every alias in it written out."""

    values: int = 1
    characters: int = 0
    levels: int = 1


_NOTHING = _Size(0)


@dataclass(slots=True)
class _FileSize:
    """The size of one file while its nodes are composed."""

    complete: _Size = _NOTHING
    """Of the documents before the current one."""
    composed: int = 0
    """Nodes of the current document so far."""
    level: int = 0

    def enter(self, line: int) -> None:
        """Counts a node before it is composed. Raises _RefusedError."""
        self.level, self.composed = self.level + 1, self.composed + 1
        self._bound(_Size(self.composed, 0, self.level), line)

    def leave(self, node: Any, line: int, is_alias: bool) -> None:
        """Gives a node its size once it is composed; an alias is the node that it names. Raises _RefusedError."""
        if not is_alias:
            node.size = _size_of(node)
            self._bound(node.size, line)
            if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
                raise _RefusedError(f"line {line}: a number of {len(node.value)} characters; put it in quotes")
        elif not hasattr(node, "size"):
            raise _RefusedError(f"line {line}: contains itself; write the value out")
        self.level -= 1
        if self.level == 0:
            self.complete, self.composed = _added(self.complete, node.size), 0

    def _bound(self, size: _Size, line: int) -> None:
        """Raises _RefusedError where a node of this size puts the file above a limit."""
        file = _added(self.complete, size)
        if size.levels > MOST_LEVELS:
            problem = f"is nested too deeply: at most {MOST_LEVELS} levels"
        elif file.values > MOST_VALUES:
            problem = f"too many keys and values: at most {MOST_VALUES} in a file"
        elif file.characters > MOST_BYTES:
            problem = f"too large: at most {MOST_BYTES >> 20} MiB in a file"
        else:
            return
        raise _RefusedError(f"line {line}: {problem}, with every alias written out")


def yaml_documents(file: Path) -> list[tuple[str, Any]]:
    """Returns every non-empty document of a file (`-` is standard input), with its origin: file and
    number, from 1. Raises InvalidInput that names file, place and remedy.
    """
    try:
        content = _content(file)
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}", field="filename") from None
    documents = [
        (f"{file} document {number}", value)
        for number, value in enumerate(_parse(content, str(file), "filename"), 1)
        if value is not None
    ]
    for origin, value in documents:
        for field, problem in _not_json(value):
            raise InvalidInput(f"{origin}: {_shown(field)}: {problem}", field=_shown(field))
    return documents


def yaml_value(content: bytes, origin: str) -> Any:
    """Returns the single document of a text; None if it is empty. Raises InvalidInput that names `origin` and place."""
    documents = _parse(content, origin, origin)
    if len(documents) > 1:
        raise InvalidInput(f"{origin}: has {len(documents)} documents; one is allowed", field=origin)
    return documents[0] if documents else None


def _content(file: Path) -> bytes:
    """Returns the bytes of a file, one more than is allowed at most. Raises OSError."""
    if str(file) == "-":
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    with file.open("rb") as stream:
        return stream.read(MOST_BYTES + 1)


def _parse(content: bytes, origin: str, field: str) -> list[Any]:
    """Returns all documents. Raises InvalidInput."""
    import yaml  # processes that read no such file do not pay for it

    if len(content) > MOST_BYTES:
        raise InvalidInput(f"{origin}: is above {MOST_BYTES >> 20} MiB, the limit of a file; split it", field=field)
    try:
        return list(yaml.load_all(content.decode(), _loader()))
    except _RefusedError as error:
        raise InvalidInput(f"{origin}: {error}", field=field) from None
    except (yaml.YAMLError, ValueError) as error:  # the latter of bytes that are not UTF-8, and of impossible dates
        raise InvalidInput(f"{origin}: is not YAML: {_shown(' '.join(str(error).split()))}", field=field) from None


def _loader() -> Any:
    """Returns the safe loader with limits, and with duplicate keys refused; by default the last one wins silently."""
    import yaml

    class Strict(yaml.SafeLoader):
        sizes = _FileSize()

        def compose_node(self, parent: Any, index: Any) -> Any:
            event, is_alias = self.peek_event(), self.check_event(yaml.AliasEvent)  # type: ignore[no-untyped-call]
            line = int(event.start_mark.line) + 1
            self.sizes.enter(line)
            node = super().compose_node(parent, index)
            self.sizes.leave(node, line, is_alias)
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:str" and key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"duplicate key {key.value!r}; remove one", key.start_mark
                    )
                if isinstance(key.value, str):
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Strict


def _added(size: _Size, other: _Size) -> _Size:
    return _Size(size.values + other.values, size.characters + other.characters)


def _size_of(node: Any) -> _Size:
    """Returns the size of a node whose parts have theirs."""
    if isinstance(node.value, str):
        return _Size(1, len(node.value))
    parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return _Size(
        1 + sum(part.size.values for part in parts),
        sum(part.size.characters for part in parts),
        1 + max((part.size.levels for part in parts), default=0),
    )


def _not_json(document: Any) -> Iterator[tuple[str, str]]:
    """Yields fields without a JSON equivalent, and why. Shared values are visited once."""
    done = set[int]()

    def walk(value: Any, field: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, float) and not math.isfinite(value):
            yield field, f"{value} is not allowed; a finite number"
        elif not isinstance(value, dict | list):
            if value is not None and not isinstance(value, str | int | float):
                kind = _NAMES.get(type(value).__name__, type(value).__name__)
                yield field, f"{_shown(str(value))} is {kind} to YAML; put it in quotes"
        elif id(value) not in done:
            done.add(id(value))
            for name, part in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(part, f"{field}.{name}" if field else str(name))

    return walk(document, "")


def _shown(text: str) -> str:
    """Returns the text of a message, which may quote a value of megabytes; where it stands is at its end."""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]} … {text[-_MOST_SHOWN // 2 :]}"
