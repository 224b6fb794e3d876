"""The `-o` option of lists: tables, whole objects, names, or a JSONPath template. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from slackwater.cli.jsonpath import Template, parse_template
from slackwater.cli.output import Format
from slackwater.model.errors import InvalidInput

NAME = "name"
JSONPATH = "jsonpath="
FORMS = (*(form.value for form in Format), NAME, JSONPATH)
ALLOWED = "table, wide, json, yaml, name, jsonpath=TEMPLATE"


@dataclass(frozen=True, slots=True)
class OutputForm:
    """A format of whole tables and objects; or names, one per line (`names`); or a template."""

    form: Format = Format.TABLE
    names: bool = False
    template: Template | None = None

    @property
    def is_object(self) -> bool:
        """Whether it is made of the API's object, not of rows."""
        return self.template is not None or self.form in (Format.JSON, Format.YAML)

    @property
    def is_wide(self) -> bool:
        return self.form is Format.WIDE


def parse_output(text: str) -> OutputForm:
    """Raises InvalidInput that lists what is allowed."""
    if text.startswith(JSONPATH):
        return OutputForm(template=parse_template(text.removeprefix(JSONPATH)))
    if text == NAME:
        return OutputForm(names=True)
    for form in Format:
        if text == form.value:
            return OutputForm(form)
    close = difflib.get_close_matches(text, FORMS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidInput(f"--output: {text!r} is not a format; {hint}allowed: {ALLOWED}", field="output")


def complete_output(begun: str) -> list[str]:
    """The formats with this prefix, for shell completion."""
    return [form for form in FORMS if form.startswith(begun)]
