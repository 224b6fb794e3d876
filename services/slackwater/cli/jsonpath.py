"""JSONPath templates as `kubectl -o jsonpath=` takes them: paths in braces, `range` and `end`, quoted text. Pure.

Paths are those of RFC 9535, read by python-jsonpath. As for kubectl, a name after a dot may have dashes, slashes and
`\\.` for a dot. A path that is missing gives nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

_STEP = re.compile(
    r"""(?:(?<!\.)\.)?(?P<filter>\[\?\(.*?\)\])
      | (?:(?<!\.)\.)?(?P<brackets>\[(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\]"'])*\])
      | (?P<below>\.?)\.(?P<name>(?:[^.\[\]\\\s*'"]|\\.)+)""",
    re.VERBOSE,
)
_IN_FILTER = re.compile(r"""(?P<text>"[^"]*"|'[^']*')|@(?P<path>(?:\.\.?(?:[\w/-]|\\.)+|\[[^\]]*\])*)""")
_PIECE = re.compile(r"""\{\s*((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^{}"'])*)\}""")


def _wrong(problem: str) -> InvalidInput:
    return InvalidInput(f"jsonpath: {problem}", field="output")


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path; `query` None is the value itself."""

    query: JSONPath | CompoundJSONPath | None

    def values(self, root: Any) -> list[Any]:
        """The values at this path, in order; none where it is missing. Raises InvalidInput for values nested too
        deeply."""
        from jsonpath import JSONPathError

        if self.query is None:
            return [root]
        if isinstance(root, str):  # the library would read it as JSON
            return []
        try:
            return self.query.findall(root)
        except JSONPathError as error:
            raise _wrong(_first_line(error)) from None


def parse_path(text: str) -> Path:
    """Parse a path with or without braces, `$` or a leading dot. Raises InvalidInput that names the wrong part."""
    from jsonpath import JSONPathError, compile  # noqa: A004 - loaded where a path is given: 0.1 s

    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$").removeprefix("@")
    if path and path[0] not in ".[":
        path = f".{path}"
    if path in ("", "."):
        return Path(None)
    try:
        return Path(compile(f"${_STEP.sub(_standard, path)}"))
    except (JSONPathError, ValueError) as error:
        raise _wrong(f"{text!r}: {_first_line(error)}") from None


def _standard(step: re.Match[str]) -> str:
    """The step as RFC 9535 writes it."""
    if step["filter"]:
        return _IN_FILTER.sub(lambda part: part["text"] or f"@{_STEP.sub(_standard, part['path'])}", step["filter"])
    if step["brackets"]:
        return step["brackets"]
    name = re.sub(r"\\(.)", r"\1", step["name"]).replace("\\", "\\\\").replace("'", "\\'")
    return f"{'..' if step['below'] else ''}['{name}']"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


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
