"""Reads policy files as YAML restricted to JSON's values, without duplicate keys and recursive
aliases.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slackwater.model.errors import InvalidInput

_NAMES = {"date": "a date", "datetime": "a time", "bytes": "binary", "set": "a set"}


def yaml_documents(file: Path) -> list[tuple[str, Any]]:
    """Returns every non-empty document of a file (`-` is standard input), with its origin: file and
    number, from 1. Raises InvalidInput that names file, place and remedy.
    """
    import yaml

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        documents_read = list(yaml.load_all(text, _loader()))
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}", field="filename") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"{file}: is not YAML: {' '.join(str(error).split())}", field="filename") from None
    except RecursionError:
        raise InvalidInput(f"{file}: is nested too deeply", field="filename") from None
    documents = [
        (f"{file} document {number}", value) for number, value in enumerate(documents_read, 1) if value is not None
    ]
    for origin, value in documents:
        for field, problem in _not_json(value):
            raise InvalidInput(f"{origin}: {field}: {problem}", field=field)
    return documents


def _loader() -> Any:
    """Returns the safe loader with duplicate keys refused; by default the last one wins
    silently.
    """
    import yaml

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if key.value in seen and key.tag == "tag:yaml.org,2002:str":
                    raise yaml.constructor.ConstructorError(
                        None, None, f"duplicate key {key.value!r}; remove one", key.start_mark
                    )
                if isinstance(key.value, str):
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Strict


def _not_json(document: Any) -> Iterator[tuple[str, str]]:
    """Yields fields without a JSON equivalent, and why. Shared values are visited once."""
    within, done = set[int](), set[int]()

    def walk(value: Any, field: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, float) and not math.isfinite(value):
            yield field, f"{value} is not allowed; a finite number"
        elif not isinstance(value, dict | list):
            if value is not None and not isinstance(value, str | int | float):
                kind = _NAMES.get(type(value).__name__, type(value).__name__)
                yield field, f"{value!s} is {kind} to YAML; put it in quotes"
        elif id(value) in within:
            yield field, "contains itself; write the value out"
        elif id(value) not in done:
            within.add(id(value))
            for name, part in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(part, f"{field}.{name}" if field else str(name))
            within.discard(id(value))
            done.add(id(value))

    return walk(document, "")
