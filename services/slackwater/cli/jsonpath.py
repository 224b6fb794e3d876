"""JSONPath templates as `kubectl -o jsonpath=` takes them: paths in braces, `range` and `end`, quoted text. Pure.

Steps: `.name` (`\\.` for a dot in a name), `['name']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..name`, and filters
`[?(@.name=="text")]` with `== != < <= > >=`. A path that is missing gives nothing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text

Step = Callable[[Any], Iterator[Any]]
_STEP = re.compile(
    r"""\.\.(?P<below>(?:[^.\[\]\\\s]|\\.)+)
      | \.?\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \.?\[\?\((?P<filter>.+?)\)\]
      | \.?\[(?P<index>-?\d+)\]
      | \.?\[(?P<first>-?\d*):(?P<last>-?\d*)\]
      | (?P<all>\.?\[\*\]|\.\*)
      | \.(?P<name>(?:[^.\[\]\\\s*]|\\.)+)""",
    re.VERBOSE,
)
_CONDITION = re.compile(r"@(?P<path>\S*?)\s*(?:(?P<compare>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ALLOWED = """.name, ['name'], [0], [1:3], [*], .*, ..name, [?(@.name=="text")]"""
_PIECE = re.compile(r"""\{\s*((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^{}"'])*)\}""")


def _wrong(problem: str) -> InvalidInput:
    return InvalidInput(f"jsonpath: {problem}", field="output")


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path."""

    steps: Sequence[Step]

    def values(self, root: Any) -> list[Any]:
        """The values at this path, in order; none where it is missing."""
        values = [root]
        for step in self.steps:
            values = [found for value in values for found in step(value)]
        return values


def parse_path(text: str) -> Path:
    """Parse a path with or without braces, `$` or a leading dot. Raises InvalidInput that names the wrong part."""
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$").removeprefix("@")
    if path and path[0] not in ".[":
        path = f".{path}"
    return Path(() if path in ("", ".") else tuple(_steps(path, text)))


def _steps(path: str, text: str) -> Iterator[Step]:
    place = 0
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None:
            raise _wrong(f"{path[place:]!r} of {text!r} is not a step; allowed: {ALLOWED}")
        yield _step(match, text)
        place = match.end()


def _step(match: re.Match[str], text: str) -> Step:
    parts = match.groupdict()
    if parts["all"]:
        return _children
    if parts["index"] is not None:
        return _item_at(int(parts["index"]))
    if parts["first"] is not None:
        first, last = (int(parts[end]) if parts[end] else None for end in ("first", "last"))
        return lambda value: iter(value[first:last] if isinstance(value, list) else ())
    if parts["filter"] is not None:
        return _filter(parts["filter"], text)
    if parts["below"] is not None:
        return _below(_unescaped(parts["below"]))
    return _field(parts["quoted"] if parts["quote"] else _unescaped(parts["name"]))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _field(name: str) -> Step:
    return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else ())


def _item_at(place: int) -> Step:
    return lambda value: iter([value[place]] if isinstance(value, list) and -len(value) <= place < len(value) else ())


def _children(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _below(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _children(value):
            yield from step(child)

    return step


def _filter(condition: str, text: str) -> Step:
    match = _CONDITION.fullmatch(condition.strip())
    if match is None:
        raise _wrong(f"the filter {condition!r} of {text!r} is not allowed; allowed: {ALLOWED}")
    path, compare = parse_path(match["path"]), match["compare"]
    if compare is None:
        return lambda value: (child for child in _children(value) if path.values(child))
    expected = _literal(match["value"], text)
    return lambda value: (
        child for child in _children(value) if any(_compared(compare, each, expected) for each in path.values(child))
    )


def _literal(text: str, whole: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return parse_json_text(text)
    except ValueError:
        raise _wrong(f"{text!r} of {whole!r} is not a value; put text in quotes") from None


def _compared(compare: str, value: Any, expected: Any) -> bool:
    """False for values of different types, except that `!=` holds for them."""
    try:
        return _COMPARISONS[compare](value, expected)
    except TypeError:
        return False


@dataclass(frozen=True, slots=True)
class Template:
    """Text, paths and ranges over paths, in order."""

    parts: Sequence[Part]

    def text(self, root: Any) -> str:
        """The template with the values of `root`; several values of one path are separated by blanks."""
        return "".join(self._part(part, root) for part in self.parts)

    def _part(self, part: Part, root: Any) -> str:
        match part:
            case str():
                return part
            case Path():
                return " ".join(_shown(value) for value in part.values(root))
            case (path, inner):
                return "".join(inner.text(value) for value in path.values(root))


Part = str | Path | tuple[Path, Template]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_template(text: str) -> Template:
    """Parse a template; text without braces is one path. Raises InvalidInput."""
    if "{" not in text:
        return Template((parse_path(text),))
    return Template(tuple(_parts(list(_pieces(text)), text, inside=False)))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(`text` or `path`, content) in order."""
    place = 0
    for match in _PIECE.finditer(text):
        if match.start() > place:
            yield "text", text[place : match.start()]
        yield "path", match[1].strip()
        place = match.end()
    if "{" in text[place:]:
        raise _wrong(f"{text[place:]!r} has a brace that is not closed")
    if place < len(text):
        yield "text", text[place:]


def _parts(pieces: list[tuple[str, str]], text: str, *, inside: bool) -> list[Part]:
    """Consumes the pieces up to the end of this range (`inside`) or of the template; returns its parts."""
    parts: list[Part] = []
    while pieces:
        kind, content = pieces.pop(0)
        if kind == "text":
            parts.append(content)
        elif content == "end":
            if not inside:
                raise _wrong(f"{{end}} of {text!r} has no {{range}}")
            return parts
        elif content.startswith("range ") or content == "range":
            inner = _parts(pieces, text, inside=True)
            parts.append((parse_path(content.removeprefix("range")), Template(tuple(inner))))
        elif content[:1] in ("'", '"'):
            parts.append(_unquoted(content, text))
        else:
            parts.append(parse_path(content))
    if inside:
        raise _wrong(f"a {{range}} of {text!r} has no {{end}}")
    return parts


def _unquoted(content: str, text: str) -> str:
    inner = content[1:-1].replace("\\'", "'").replace('"', '\\"') if content[0] == "'" else content[1:-1]
    try:
        return str(parse_json_text(f'"{inner}"'))
    except ValueError:
        raise _wrong(f"{content} of {text!r} is not quoted text") from None
