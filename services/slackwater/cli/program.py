"""The installed commands. They start without the packages of the extra `server`, to say that it is missing."""

from __future__ import annotations

import sys

from slackwater.cli.exits import ERROR

INSTALL_SERVER = "pip install 'slackwater[server]'"


def main() -> None:
    """Run one command, as `slackwater`."""
    _run(None)


def kubectl() -> None:
    """Run one command as the plugin of kubectl: usage and examples name `kubectl slackwater`."""
    _run("kubectl slackwater")


def _run(name: str | None) -> None:
    try:
        from slackwater.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "slackwater":
            raise
        needed = f"the command line needs {error.name}, which the extra server holds: {INSTALL_SERVER}"
        sys.stderr.write(f"slackwater: {needed}; the package alone is slackwater.client\n")
        sys.exit(ERROR)
    run(name=name)
