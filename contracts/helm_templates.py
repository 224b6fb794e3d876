"""Turns objects of manifests into templates of a Helm chart: placeholders in a tree, and their text after the dump."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_PLACE = re.compile(r"^(?P<indent> *)(?P<dash>- )?'?@@(?P<number>\d+)@@'?(?P<rest>: null)?$", re.MULTILINE)
_COLUMN = re.compile(r"\{n(\d*)\}")
_INLINE = re.compile(r"'?@@S(\d+)@@'?")
WIDTH = 10_000


class _Plain(yaml.SafeDumper):
    """Without anchors, with the items of lists indented, texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _text)


class TemplateText:
    """Texts of templates that stand in a tree as placeholders. In a text, `{n}` is the column where it begins, `{n2}`
    two more."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.heads: list[str] = []
        """Lines of definitions that the object uses: they stand before it, and before its condition."""

    def scalar(self, expression: str) -> str:
        """A value that is an expression."""
        return self._placed(f"{{{{ {expression} }}}}", "S")

    def key(self, *lines: str) -> tuple[str, None]:
        """An entry of a mapping that is whole lines."""
        return self._placed("\n".join(lines)), None

    def item(self, *lines: str) -> str:
        """An item of a list that is whole lines."""
        return self._placed("\n".join(lines))

    def _placed(self, text: str, mark: str = "") -> str:
        self._texts.append(text)
        return f"@@{mark}{len(self._texts) - 1}@@"

    def lines(self, items: Sequence[Any]) -> list[str]:
        """The lines of a list with placeholders, to stand in another text of this template."""
        return [line.removeprefix("  ") for line in self._dumped({"items": items}, 2, later=True)[1:]]

    def body(self, tree: Mapping[str, Any]) -> list[str]:
        """The lines of a mapping with placeholders, to stand in another text of this template."""
        return self._dumped(tree, 0, later=True)

    def render(self, tree: Mapping[str, Any]) -> str:
        """The template of an object."""
        return "".join(f"{line}\n" for line in self._dumped(tree, 0, later=False))

    def _dumped(self, tree: Mapping[str, Any], left: int, *, later: bool) -> list[str]:
        """Lines of a tree. Columns count from `left`; `later`: the text stands in another one, which adds its own."""
        dumped = str(yaml.dump(tree, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=WIDTH))
        dumped = dumped.replace("{{", '{{ "{{" }}')

        def placed(match: re.Match[str]) -> str:
            indent = match["indent"]

            def column(found: re.Match[str]) -> str:
                number = int(found[1] or 0) + len(indent) - left
                return f"{{n{number}}}" if later else str(number)

            text = _COLUMN.sub(column, self._texts[int(match["number"])])
            return "\n".join(f"{indent}{line}" for line in text.split("\n"))

        dumped = _PLACE.sub(placed, dumped)
        return _INLINE.sub(lambda match: self._texts[int(match[1])], dumped).rstrip("\n").split("\n")


def lines_of(value: Mapping[str, Any] | Sequence[Any]) -> list[str]:
    """The lines of a value as YAML, to stand in a template."""
    dumped = str(yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=WIDTH))
    return dumped.rstrip("\n").split("\n")
