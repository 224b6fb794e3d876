"""`--dry-run` in kubectl's form: `--dry-run=server` is the same as `--dry-run`, because only the server can
validate.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

FLAG = "--dry-run"


class TryingCommand(TyperCommand):
    """A command with the flag `--dry-run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises typer.BadParameter for any other value."""
        return super().parse_args(ctx, [_plain(argument) for argument in args])


def _plain(argument: str) -> str:
    flag, equals, value = argument.partition("=")
    if flag != FLAG or not equals:
        return argument
    if value != "server":
        raise typer.BadParameter(
            f"{FLAG}={value}: is not allowed; allowed: server, which validates and shows the effect, and stores nothing"
        )
    return FLAG
