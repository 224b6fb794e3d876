"""Options of the command line: one that would have no effect is refused, not ignored."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from slackwater.model.errors import InvalidInput


def refuse_given(context: typer.Context, parameters: Iterable[str], because: str) -> None:
    """Raises InvalidInput that names the first of these parameters that the command line sets; defaults do not
    count.
    """
    names = set(parameters)
    for parameter in context.command.params:
        if parameter.name not in names:
            continue
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            option = max(parameter.opts, key=len)
            raise InvalidInput(f"{option}: {because}", field=option.removeprefix("--"))
