"""A simulated machine whose limits and pods outlive its agent, as a kernel's do, and that logs all effects.

`python -m tests.faults.machine --nats URL --folder DIR --node NAME` runs the product's agent on it, to be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.node_agent import AgentService
from slackwater.agent.settings import AgentSettings
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.model.errors import Misconfigured
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform


class Kernel(SimulatedDriver):
    """Logs every write and signal before it takes effect; both are on disk when the call returns."""

    def __init__(self, node: str, folder: Path) -> None:
        super().__init__(node, 1, SystemClock())
        self._folder = folder
        self._log = os.open(folder / "effects.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open(self) -> None:
        """Load the state as the previous agent left it."""
        super().open()
        for line in effects(self._folder):
            if line["what"] == "write":
                self._texts[Knob(str(line["path"]), str(line["field"]))] = str(line["text"])
            elif line["ended"]:
                super().terminate(str(line["pod"]), signal.SIGKILL)

    def read(self, knob: Knob) -> str:
        if not self._pods:  # the agent restores what a crashed run left before it opens the machine
            self.open()
        return super().read(knob)

    def write(self, knob: Knob, text: str) -> None:
        if not self._pods:
            self.open()
        super().write(knob, text)
        self._note({"what": "write", "path": knob.path, "field": knob.field, "text": text})

    def terminate(self, pod_uid: str, signal: int) -> None:
        lived = self.alive(pod_uid)
        self._note({"what": "signal", "pod": pod_uid, "signal": signal, "ended": lived})
        super().terminate(pod_uid, signal)

    def _note(self, line: dict[str, object]) -> None:
        os.write(self._log, json.dumps({**line, "at": time.time()}).encode() + b"\n")


def effects(folder: Path) -> Iterator[dict[str, object]]:
    """The logged effects on the machine of this folder, in order."""
    path = folder / "effects.jsonl"
    if path.exists():
        with path.open() as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))


def limits(folder: Path) -> dict[str, str]:
    """The CPU limit text in force by pod, for limits that were ever written."""
    found = {}
    for line in effects(folder):
        if line["what"] == "write" and line["field"] == "cpu_limit":
            found[str(line["path"]).split("/")[1]] = str(line["text"])
    return found


async def work(url: str, folder: Path, node: str) -> None:
    """Run the product's agent, with its journal and its ledger of evictions on disk, until a signal."""
    settings = AgentSettings(node=node, pool="faults", sample_seconds=0.25, report_seconds=0.5)
    bus = LateBus()

    def no_database(service: str) -> None:
        raise Misconfigured(f"{service} asked for a database, but an agent has none")

    platform = Platform(bus, SystemClock(), no_database, folder)  # type: ignore[arg-type] # never returns
    journal, ledger = LinesJournal(folder / "journal"), JsonLedger(folder / "evictions.json")
    service = AgentService(settings, platform, Kernel(node, folder), journal, ledger)
    async with bus.connecting(lambda: connect_bus(url, name="agent", declares=False, wait_seconds=5)):
        running = asyncio.create_task(service.run(lambda: None))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nats", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--node", required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(work(options.nats, options.folder, options.node))


if __name__ == "__main__":
    main()
