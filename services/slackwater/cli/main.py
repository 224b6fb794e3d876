"""The `slackwater` command: a table of verbs, one module each.

A verb module defines `command(...)`, a typer function whose docstring is its help. It imports nothing heavy at module
level, because `slackwater --help` loads all of them. It returns for success and raises `typer.Exit(code)` otherwise;
errors of the tree end as one line on stderr.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.credentials import Credentials, remember, remember_server
from slackwater.cli.exits import ERROR, INTERRUPTED, USAGE
from slackwater.cli.global_options import on_both_sides
from slackwater.model.errors import InvalidInput, SlackwaterError

VERBS: Sequence[str] = (
    *("up", "run", "agent", "exec", "claim"),
    *("apply", "diff", "delete", "get", "top", "describe", "history", "why", "events", "replay", "release"),
    *("block", "unblock"),
    *("plan", "simulate", "assess", "backtest"),
    *("doctor", "openapi", "nats-config", "nats-reload", "secrets", "cluster-secrets", "cluster-access"),
    *("migrate", "backup", "restore"),
    *("kubernetes", "profile", "import"),
)
"""Verb = module `slackwater.cli.<verb>` (a `-` in the verb is a `_` in the module), in the order of the help."""

MODULES: Mapping[str, str] = {"import": "import_documents"}
"""Modules of verbs that are words of Python."""

app = typer.Typer(
    name="slackwater",
    help="Lends the capacity that workloads reserve and do not use, and reclaims it in time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from slackwater.runtime.version import version

        typer.echo(f"slackwater {version()}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    token: Annotated[str | None, typer.Option(help="API token; or SLACKWATER_TOKEN.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the token; or SLACKWATER_TOKEN_FILE.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Trusted CA certificates; or SLACKWATER_CA.")] = None,
    cert: Annotated[Path | None, typer.Option(help="Client certificate (mTLS); or SLACKWATER_CERT.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key; or SLACKWATER_KEY.")] = None,
    server: Annotated[str | None, typer.Option(help="URL; default: the instance of this state directory.")] = None,
) -> None:
    """Lends the capacity that workloads reserve and do not use, and reclaims it in time."""
    remember(Credentials(token, token_file, ca, cert, key))
    remember_server(server)


def register(target: typer.Typer) -> None:
    """Add every verb of the table. A missing module fails here, because the installation is broken."""
    for verb in VERBS:
        name = MODULES.get(verb) or verb.replace("-", "_")
        module = importlib.import_module(f"slackwater.cli.{name}")
        context, kind = getattr(module, "CONTEXT", None), getattr(module, "COMMAND", None)
        target.command(verb, cls=kind, context_settings=context)(on_both_sides(verb, module.command))


register(app)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk is full; a traceback would not help."""


def main(arguments: Sequence[str] | None = None, name: str | None = None) -> None:
    """Run one command and exit with its status: 0 success, 1 error, 2 usage, 3 findings, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # print `?` for a character that the terminal or pipe cannot encode
            stream.reconfigure(errors="replace")
    try:
        status = app(args=None if arguments is None else list(arguments), prog_name=name, standalone_mode=True)
    except SlackwaterError as error:
        sys.stderr.write(f"slackwater: {error.message}\n")
        status = USAGE if isinstance(error, InvalidInput) else ERROR
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # the reader, e.g. `head`, closed the pipe
        status = _given_up()
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        sys.stderr.write(f"slackwater: {error.filename or 'the output'}: {error.strerror}; free some space\n")
        status = _given_up()
    sys.exit(status)


def _given_up() -> int:
    """Discard the buffered output, because Python would report the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ERROR
