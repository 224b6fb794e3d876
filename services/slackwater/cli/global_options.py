"""Options of the program stand before or behind the verb, and mean the same on both sides."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.cli.credentials import Credentials, given_options, given_server, remember
from slackwater.model.errors import InvalidInput

SERVER = "server"
_BEHIND = {
    name: inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            kind | None, typer.Option(f"--{name.replace('_', '-')}", hidden=True, help="as before the verb")
        ],
    )
    for name, kind in (("token", str), ("token_file", Path), ("ca", Path), ("cert", Path), ("key", Path))
}
"""As they stand behind a verb; `slackwater --help` shows them once."""


def on_both_sides(verb: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command of a verb that also takes the program's credentials, and the `--server` before it. What stands behind
    the verb counts more.
    """
    own = inspect.signature(command, eval_str=True)
    added = [parameter for name, parameter in _BEHIND.items() if name not in own.parameters]

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        later = Credentials(**{_FIELDS[each.name]: values.pop(each.name) for each in added})
        remember(given_options().overridden_by(later))
        if given_server() is not None:
            if SERVER not in own.parameters:
                raise InvalidInput(f"--server: {verb} talks to no server", field=SERVER)
            values[SERVER] = values[SERVER] or given_server()
        return command(**values)

    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    return run


_FIELDS = {"token": "plain", "token_file": "token_file", "ca": "ca", "cert": "certificate", "key": "key"}
"""Option: the field of Credentials."""
