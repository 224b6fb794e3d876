"""`slackwater nats-reload`: tells a nats-server to read its configuration again when the files change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the configuration and the certificate.")],
    pid_file: Annotated[Path, typer.Option(help="Where the nats-server writes its process id (--pid).")],
    every_seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How often the files are compared.")] = 5.0,
) -> None:
    """Send SIGHUP to a nats-server whenever a file of its configuration changes, until it is stopped.

    The chart runs it beside the broker: renewed certificates and new users are in force without a restart.
    """
    import time

    from slackwater.cli.output import errors_to_stderr, message

    with errors_to_stderr():
        known = ""  # a file may have changed between the broker's start and this one's
        while True:
            digest = _digest(folder)
            if digest != known and _reload(pid_file):
                message("reloaded")
                known = digest
            time.sleep(every_seconds)


def _digest(folder: Path) -> str:
    """Of the names and contents of all files. Kubernetes replaces them by a link to a new folder."""
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _reload(pid_file: Path) -> bool:
    """Whether a nats-server was signalled. A file of one that has ended may name another process by now."""
    import os
    import signal

    try:
        process = int(pid_file.read_text(encoding="ascii"))
        if not Path(f"/proc/{process}/comm").read_text(encoding="ascii").startswith("nats-server"):
            return False
        os.kill(process, signal.SIGHUP)
    except (OSError, ValueError):  # it is starting: tried again
        return False
    return True
