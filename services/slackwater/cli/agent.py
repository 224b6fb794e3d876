"""`slackwater agent`: runs the node agent as its own process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    nats: Annotated[str, typer.Option(help="NATS address, like nats://127.0.0.1:4222.")],
    node: Annotated[str | None, typer.Option(help="Node name; default: the host name.")] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="State directory: journal and registry; or SLACKWATER_STATE_DIR.")
    ] = None,
) -> None:
    """Run the node agent alone: measure this machine, report, execute intents, restore on stop."""
    from slackwater.runtime.state import default_state_dir

    folder = (state_dir or default_state_dir()).absolute()
    arguments = ["--nats", nats, "--state-dir", str(folder)]
    if node is not None:
        arguments += ["--node", node]
    # Replace this process, because otherwise the libraries of the command line stay in memory on every node.
    os.execv(sys.executable, [sys.executable, "-m", "slackwater.agent", *arguments])  # noqa: S606 - no shell by intent
