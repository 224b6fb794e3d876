"""Rehearse the disaster: a fleet at work, a backup, everything gone, a restore on new servers, the fleet at work again.

    .venv/bin/python -m deploy.backup.rehearse [--nodes 20] [--seconds 15]

Everything runs on servers from the wheels, in a temporary folder, through the commands that an operator would use. The
broker speaks TLS and authenticates users by their keys, as deployed: its user `backup` makes the copy, and `restore`
restores it, with these permissions only.
Prints the state hashes, which must be equal, and the recovery time: from the start of the restore until every node
has a prediction newer than the disaster, and an offer. Exit status 0 only if both hold. `make rehearse` is the same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.guardian import guarded

from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.service_list import service_names

SERVICES = service_names()
PATIENCE_SECONDS = 120.0
_GUARDED = "SLACKWATER_REHEARSAL_GUARDED"
WINDOWS = {
    "SLACKWATER_INGESTION_WINDOW_SECONDS": "5",
    "SLACKWATER_PREDICTION_HISTOGRAM_UPDATE_SECONDS": "5",
    "SLACKWATER_PREDICTION_CHECK_SECONDS": "1",
    "SLACKWATER_PREDICTION_REPORTING_SECONDS": "1",
}
"""Shorter than usual, so that the recovery time says how long the recovery took and not how long a window is.
The caller's variables go before these."""


class Failed(Exception):
    """The rehearsal failed; the message names the step."""


class Site:
    """One PostgreSQL, one NATS, every service and a simulated fleet as processes of their own."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder
        self._nodes = nodes
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[str]] = []
        self.postgres = ""
        self.nats = ""
        self.console = ""

    def __enter__(self) -> Site:
        database = self._stack.enter_context(EmbeddedPostgres(self._folder / "postgres"))
        self.postgres = database.dsn
        broker = EmbeddedNats(self._folder / "nats", host="localhost", include=self._permissions())
        self.nats = asyncio.run(broker.start())
        self._stack.callback(lambda: asyncio.run(broker.stop()))
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._processes)
        self._stack.close()

    def _permissions(self) -> Path:
        """What `slackwater secrets` makes for a deployment, with its paths in a container turned into ours."""
        slackwater("secrets", str(self._secrets), "--fleet", "--nats-host", "localhost")
        made = self._secrets / "nats" / "access.conf"
        text = made.read_text().replace("/etc/nats/", f"{made.parent}/").replace("/data/", f"{self._folder}/")
        made.write_text(text)
        return made

    @property
    def _secrets(self) -> Path:
        return self._folder / "secrets"

    def login(self, user: str) -> dict[str, str]:
        """How a user of the broker proves itself, as variables."""
        folder = self._secrets / user
        files = {"CREDENTIALS_FILE": folder / "nats.creds", "CA": folder / "ca.crt"}
        return {f"SLACKWATER_NATS_{name}": str(file) for name, file in files.items()}

    def start_services(self) -> None:
        """All services at once, then the fleet; returns when every service is up."""
        services = {}
        for name in SERVICES:
            arguments = ("run", name, "--postgres", self.postgres, "--nats", self.nats, "--port", "0")
            services[name] = self._start(arguments, self._environment(name) | self.login(name))
        addresses = {name: first_line(process).split()[-1] for name, process in services.items()}
        self.console = addresses["console"]
        fleet = (
            self._environment("agent")
            | self.login("fleet")
            | {
                "SLACKWATER_AGENT_DRIVER": "simulated",
                "SLACKWATER_AGENT_NODES": str(self._nodes),
                "SLACKWATER_AGENT_REPORT_SECONDS": "1",
            }
        )
        agent = ("agent", "--nats", self.nats, "--state-dir", str(self._folder / "agent"))
        self._start(agent, fleet)

    def _start(self, arguments: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[str]:
        """A slackwater command that is ended with the site."""
        command = (sys.executable, "-m", "slackwater.cli", *arguments)
        self._processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return self._processes[-1]

    def wait_for_the_loop(self, since: datetime) -> None:
        """Until every node has an offer, and a prediction made after `since` on which it rests. Raises Failed."""
        waiting = set(range(1, self._nodes + 1))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while waiting := {number for number in waiting if not self._works(f"sim-{number:02d}", since)}:
            if time.monotonic() > deadline:
                raise Failed(f"after {PATIENCE_SECONDS:g} s {len(waiting)} of {self._nodes} nodes have no prediction")
            time.sleep(0.1)

    def _works(self, node: str, since: datetime) -> bool:
        """An offer that did not change is not offered again, so the prediction is the evidence."""
        after = since.isoformat().replace("+00:00", "Z")
        return bool(self._items(f"nodes/{node}/forecast?since={after}") and self._items(f"nodes/{node}/offers"))

    def _items(self, path: str) -> list[dict[str, Any]]:
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.console}/v1/{path}") as answer,  # noqa: S310 - our own address
        ):
            items: list[dict[str, Any]] = json.load(answer)["items"]
            return items
        return []

    def _environment(self, name: str) -> dict[str, str]:
        folder = self._folder / "state" / name
        folder.mkdir(parents=True, exist_ok=True)
        return WINDOWS | dict(os.environ) | {"SLACKWATER_STATE_DIR": str(folder)}


def stop(processes: Sequence[subprocess.Popen[str]]) -> None:
    """SIGTERM to all, SIGKILL to one that does not end."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    """What a service prints when it is up. Raises Failed when it ends instead."""
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise Failed(f"{process.args!r} ended with {process.wait()}")
    return line


def slackwater(*arguments: str, **variables: str) -> str:
    """Run a command to its end and return what it printed. Raises Failed."""
    command = (sys.executable, "-m", "slackwater.cli", *arguments)
    environment = dict(os.environ) | variables
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise Failed(f"slackwater {arguments[0]} ended with {done.returncode}")
    return done.stdout


def hash_in(text: str) -> str:
    """The state hash that a command printed."""
    found = re.search(r"state hash ([0-9a-f]{64})", text)
    if found is None:
        raise Failed(f"no state hash in {text!r}")
    return found[1]


def rehearse(folder: Path, nodes: int, seconds: float) -> tuple[str, str, float]:
    """The state hashes of backup and restore, and the recovery time in seconds. Raises Failed."""
    copy = folder / "backup"
    with Site(folder / "before", nodes) as site:
        begun = datetime.now(UTC)
        site.start_services()
        site.wait_for_the_loop(begun)
        time.sleep(seconds)
        where = ("--postgres", site.postgres, "--nats", site.nats)
        taken = hash_in(slackwater("backup", str(copy), *where, **site.login("backup")))
    disaster = datetime.now(UTC)
    with Site(folder / "after", nodes) as site:
        clock = time.monotonic()
        where = ("--postgres", site.postgres, "--nats", site.nats)
        restored = hash_in(slackwater("restore", str(copy), *where, **site.login("restore")))
        site.start_services()
        site.wait_for_the_loop(disaster)
        return taken, restored, time.monotonic() - clock


def main() -> int:
    """Rehearse and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the fleet works before the backup")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slackwater-rehearsal-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another account when this one is root
        try:
            taken, restored, seconds = rehearse(Path(folder), options.nodes, options.seconds)
        except Failed as failure:
            sys.stderr.write(f"rehearsal failed: {failure}\n")
            return 1
    same = taken == restored
    sys.stdout.write(f"state hash before {taken}\nstate hash after  {restored}\n")
    sys.stdout.write(f"{'equal' if same else 'DIFFERENT'}; recovery time {seconds:.1f} s ({options.nodes} nodes)\n")
    return 0 if same else 1


if __name__ == "__main__":
    if _GUARDED in os.environ:
        sys.exit(main())
    os.environ[_GUARDED] = "1"
    sys.exit(guarded("rehearsal", [sys.executable, "-m", "deploy.backup.rehearse", *sys.argv[1:]]))
