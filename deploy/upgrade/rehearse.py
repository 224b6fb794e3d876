"""Rehearse a rolling change: replicas of an old version and of this one work on one PostgreSQL and one NATS server.

    .venv/bin/python -m deploy.upgrade.rehearse OLD [--new NEW] [--signal TERM|KILL] [--nodes 20] [--folder F]

OLD and NEW are checkouts, each with its environment. The old version's services and simulated fleet start; `slackwater
migrate` of the new version follows; then each service, and at last the agent, is replaced: a replica of the new
version starts beside the old one, both change documents of each kind, and the old one gets the signal. Then the same
back to the old version, on the migrated schema, and forward again. Exit status 0 only if nothing is lost, doubled,
dead-lettered or quarantined.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deploy.upgrade.documents import Documents, Failed
from nats.aio.msg import Msg
from tests.faults.audit import dead_letters, messages, refused_rows, reports, windows
from tests.faults.fleet import report_key
from tests.faults.ledger import Key, Ledger, Outcome, read
from tests.faults.oracle import Findings, compare
from tests.faults.scenarios.replicas import owned_by_the_living, shared
from tests.faults.site import QUICK, SERVICES, Site, harness_bus, site
from tests.faults.supervisor import Program, free_port, until
from tests.support.guardian import guarded

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.runtime.service_list import service_list

REPOSITORY = Path(__file__).resolve().parents[2]
_GUARDED = "SLACKWATER_UPGRADE_GUARDED"
PATIENCE_SECONDS = 120.0
DWELL_SECONDS = 4.0
READMIT_SECONDS = 40.0
ENVIRONMENT = QUICK | {"SLACKWATER_INGESTION_WINDOW_SECONDS": "5", "SLACKWATER_INGESTION_LATENESS_SECONDS": "3",
                       "SLACKWATER_GRPC_PORT": "0"}  # fmt: skip
"""Windows are longer than the pause between two agents, so that a missing window is a fault."""
FLEET = {"SLACKWATER_AGENT_DRIVER": "simulated", "SLACKWATER_AGENT_REPORT_SECONDS": "1"}
PAGES = ("/", "/decisions", "/v1/nodes", "/v1/pods", "/v1/offers", "/v1/decisions", "/v1/shards")


@dataclass(frozen=True, slots=True)
class Version:
    """A checkout with its environment. `name` is the suffix of its replicas."""

    name: str
    checkout: Path

    def command(self, *arguments: str) -> list[str]:
        path = os.pathsep.join(str(self.checkout / part) for part in ("services", "libs"))
        python = str(self.checkout / ".venv" / "bin" / "python")
        return ["/usr/bin/env", f"PYTHONPATH={path}", python, "-m", "slackwater.cli", *arguments]


@dataclass(slots=True)
class Outcomes:
    """What a rehearsal saw. `faults`: what was noticed while replicas were replaced."""

    findings: Findings = field(default_factory=Findings)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    exits: Mapping[str, int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    changes: int = 0
    replaced: int = 0

    def note(self, fault: str) -> None:
        """Add a fault, and print it at once."""
        self.faults.append(fault)
        sys.stderr.write(f"  {fault}\n")

    def complaints(self) -> list[str]:
        """Returns what is wrong, in words; empty if the rehearsal has passed."""
        found = list(self.faults)
        if not self.findings.clean:
            found.append(str(self.findings))
        found += [f"{count} dead letters: {name}" for name, count in self.dead_letters.items()]
        found += [f"{count} rows of {name} in quarantine" for name, count in self.quarantined.items() if count]
        found += [f"{name} ended {count} times by itself" for name, count in self.exits.items() if count]
        found += [] if self.decisions.get("prediction") else ["no decision of prediction was recorded"]
        return found


class Rehearsal:
    """One installation whose replicas are replaced one after the other."""

    def __init__(self, here: Site, bus: NatsBus, options: argparse.Namespace) -> None:
        self._here = here
        self._bus = bus
        self._options = options
        self.outcomes = Outcomes()
        self._documents = Documents(here, self.outcomes.note)
        self._nodes: set[str] = set()
        self._ended: Counter[str] = Counter()

    async def start(self, version: Version, name: str) -> None:
        """Start a service or the agent of a version; a service is ready afterwards."""
        full, here = f"{name}-{version.name}", self._here
        state = {"SLACKWATER_STATE_DIR": str(here.folder / f"state-{full}")}
        port = here.ports.setdefault(full, free_port())
        command = version.command("run", name, "--postgres", here.dsn, "--nats", here.broker.url, "--port", str(port))
        if name == "agent":
            state = FLEET | {"SLACKWATER_AGENT_NODES": str(self._options.nodes)}
            command = version.command("agent", "--nats", here.broker.url, "--state-dir", str(here.folder / "agent"))
        here.programs[full] = Program(full, command, here.folder, ENVIRONMENT | state)
        await here.programs[full].start()
        if name != "agent":
            await here.await_ready([full])

    async def end(self, full: str, signal: str) -> None:
        """End one process by the signal; its exit status must be that of the signal."""
        program = self._here.programs.pop(full)
        self._ended[full] += program.unasked_exits
        if signal == "KILL":
            program.kill()
        status = await program.stop()
        if status not in ((-9,) if signal == "KILL" else (0, -15)):
            self.outcomes.note(f"{full} ended with {status}: {program.log_tail(600)}")

    async def roll(self, gone: Version, come: Version) -> None:
        """Replace every service, then the agent."""
        for service in SERVICES:
            await self._replace(service, gone, come)
        await self.end(f"agent-{gone.name}", self._options.signal)
        await self.start(come, "agent")
        await asyncio.sleep(self._options.dwell)
        await self.works()

    async def _replace(self, service: str, gone: Version, come: Version) -> None:
        leaving, joined = f"{service}-{gone.name}", f"{service}-{come.name}"
        await self.start(come, service)
        partitioned = service in service_list().partitioned
        if partitioned:
            await until(lambda: shared(self._here, service), 60, f"{joined} has a share of the partitions")
        await self._documents.change(service, (leaving, joined))
        await asyncio.sleep(self._options.dwell)
        if service == "console":
            await self._read_pages((leaving, joined))
        pid = self._here.programs[leaving].pid
        await self.end(leaving, self._options.signal)
        if partitioned:
            await until(lambda: owned_by_the_living(self._here, service, pid), 60, f"{joined} owns every partition")
        await self._documents.change(service, (joined,))
        self.outcomes.replaced += 1
        sys.stdout.write(f"  {joined} replaces {leaving}, SIG{self._options.signal}\n")
        sys.stdout.flush()
        await asyncio.sleep(self._options.dwell)

    async def _read_pages(self, consoles: Sequence[str]) -> None:
        for console in consoles:
            for path in PAGES:
                answer = await self._here.http.get(self._here.url(console, path), follow_redirects=True)
                if answer.status_code != 200:
                    self.outcomes.note(f"{console} {path}: {answer.status_code}")

    async def works(self) -> None:
        """Wait until a window that began after this moment was folded for every node. Raises TimeoutError."""
        moment = time.time()
        sql = "SELECT count(*) FROM prediction.published_windows WHERE published_at > $1"

        async def every_node() -> bool:
            return bool((await self._here.value(sql, moment) or 0) >= self._options.nodes)

        await until(every_node, PATIENCE_SECONDS, "every node has a new prediction", 0.2)

    async def record_reports(self, ledger: Ledger) -> None:
        """Write each report into the ledger as it passes the broker, which stays up: a report seen is acknowledged."""

        async def note(message: Msg) -> None:
            report = json.loads(message.data)
            self._nodes.add(report["node"])
            key = report_key(report["node"], report["boot_epoch"], report["sequence"])
            ledger.meant(key)
            ledger.came(key, Outcome.ACKED)

        await self._bus.client.subscribe("sw.v1.usage.reported.>", cb=note)

    async def _sent(self) -> bool:
        return (await refused_rows(self._here)).clean

    async def judge(self, version: Version, ledger: Ledger) -> None:
        """End the agent, wait until everything is handled, and audit."""
        here, out = self._here, self.outcomes
        await self.end(f"agent-{version.name}", "TERM")
        await here.settled(self._bus, PATIENCE_SECONDS)
        with suppress(TimeoutError):  # rows that the old version refused as unknown are sent by the new one
            await until(self._sent, READMIT_SECONDS, "no row is refused", 0.5)
        await here.settled(self._bus, PATIENCE_SECONDS)
        for service in SERVICES:
            await self._documents.compare(service, (f"{service}-{version.name}",))
        out.findings = await reports(here, self._nodes, read(ledger.path), False)
        out.findings += await windows(here, self._bus, False) + await refused_rows(here)
        records = [json.loads(body)["record"] for _, body in await messages(self._bus, "decision.recorded")]
        shown = [Key("decision", row["id"]) for row in await here.rows("SELECT id FROM console.decision")]
        out.findings += compare({Key("decision", record["id"]): Outcome.ACKED for record in records}, shown)
        out.decisions = Counter(record["service"] for record in records)
        out.dead_letters = await dead_letters(self._bus)
        for service in SERVICES:
            rows = await here.rows(f"SELECT count(*) FROM {service}.quarantine")  # noqa: S608 - a constant
            out.quarantined = {**out.quarantined, service: rows[0][0]}
        self._ended.update({name: program.unasked_exits for name, program in here.programs.items()})
        out.exits = self._ended
        out.changes = self._documents.changes


async def migrate(version: Version, dsn: str) -> None:
    """`slackwater migrate` of a version. Raises Failed."""
    process = await asyncio.create_subprocess_exec(*version.command("migrate", "--postgres", dsn))
    if status := await process.wait():
        raise Failed(f"migrate of {version.checkout} ended with {status}")


async def rehearse(folder: Path, options: argparse.Namespace) -> Outcomes:
    """There, back and there again. Raises Failed, TimeoutError."""
    old, new = Version("old", options.old.resolve()), Version("new", options.new.resolve())
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, services=()))
        await migrate(old, here.dsn)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        rehearsal = Rehearsal(here, bus, options)
        for service in SERVICES:
            await rehearsal.start(old, service)
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        await rehearsal.record_reports(ledger)
        await rehearsal.start(old, "agent")
        await rehearsal.works()
        await migrate(new, here.dsn)
        await rehearsal.roll(old, new)
        await rehearsal.roll(new, old)
        await rehearsal.roll(old, new)
        await rehearsal.judge(new, ledger)
        return rehearsal.outcomes


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout of the version that is replaced")
    parser.add_argument("--new", type=Path, default=REPOSITORY, help="the checkout that replaces it; default: this one")
    parser.add_argument("--signal", choices=("TERM", "KILL"), default="TERM", help="what ends a replica")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--dwell", type=float, default=DWELL_SECONDS, help="seconds that both versions work together")
    parser.add_argument("--folder", type=Path, help="where state and logs stay; default: a temporary folder")
    options = parser.parse_args(arguments)
    for checkout in (options.old, options.new):
        if not (checkout / ".venv" / "bin" / "python").exists():
            parser.error(f"{checkout} has no environment: run tools/environment.py in it")
    return options


def main() -> int:
    """Rehearse, and print the counts and what is wrong."""
    options = parse()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="slackwater-upgrade-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # PostgreSQL runs as another account when this one is root
    try:
        out = asyncio.run(rehearse(folder.resolve(), options))
    except (Failed, TimeoutError) as failure:
        sys.stderr.write(f"rehearsal failed: {failure}\n")
        return 1
    sys.stdout.write(f"{out.replaced} replaced, {out.changes} changes of documents, decisions {dict(out.decisions)}\n")
    sys.stdout.write(f"{out.findings}\n" + "".join(f"WRONG: {line}\n" for line in out.complaints()))
    return 1 if out.complaints() else 0


if __name__ == "__main__":
    if _GUARDED in os.environ:
        sys.exit(main())
    os.environ[_GUARDED] = "1"
    sys.exit(guarded("upgrade", [sys.executable, "-m", "deploy.upgrade.rehearse", *sys.argv[1:]]))
