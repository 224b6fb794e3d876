"""Attacks in turn, each beside honest agents: their p99 stays within twice the quiet one, the services within their
declared memory, and what is attacked is named.

Each service runs in a memory cgroup of its declared limit. Attackers have the lowest CPU weight and a fixed rate,
because an attacker is on another machine; the broker's and the services' work for them has its usual weight.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from tests.bench.machine import read_jiffies, stolen_share
from tests.bench.verdict import Verdict
from tests.faults.attack import StoredReports
from tests.faults.attack_verdict import Beside, joined, judge, lines_of
from tests.faults.audit import reports
from tests.faults.fleet import report_key
from tests.faults.guarded_agents import GuardedAgent, reactions
from tests.faults.ledger import Key, Ledger, read
from tests.faults.memory_limits import BROKER, MemoryLimits, declared
from tests.faults.oracle import Findings, compare
from tests.faults.scenario import Result, Strictness
from tests.faults.site import SERVICES, Site, harness_bus, pending, site
from tests.faults.supervisor import REPOSITORY, cpu_seconds, python_path, until
from tests.support.reports import described

from slackwater.bus.admin.permissions import agent_user
from slackwater.bus.connect.access import AGENT_API_PREFIX
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.model.identifiers import partition_of

PARTITION: Final = 0
"""That of the attackers."""
HONEST: Final = 16
NEIGHBOURS: Final = 4
"""Honest agents in the attacker's partition: the same consumers read both."""
REPORT_SECONDS: Final = 0.5
FEW_WAIT: Final = 300
"""Messages that wait while honest agents go on."""
NAMED_SECONDS: Final = 15.0
"""Missing reports are counted when their window closes."""
WARM_SECONDS, RECOVERY_SECONDS, PROBE_SECONDS, ANSWER_SECONDS = 10.0, 90.0, 1.0, 5.0
ATTACKS: Final = (
    "invalid items", "deep and wide", "packed bombs", "flood", "full streams", "connections", "half requests",
    "documents", "forged",
)  # fmt: skip
NAMED_BY: Final = (
    "slackwater_bus_dead_letters", "slackwater_bus_skipped", "slackwater_bus_publish_failures", "slackwater_bus_over",
    "slackwater_bus_held",
    "slackwater_http_closed_connections", "slackwater_ingestion_reports_refused",
    "slackwater_ingestion_reports_missing", "slackwater_outbox_refused", "slackwater_state_quarantined",
)  # fmt: skip
"""Metrics that name an attack, by the beginnings of their names."""
MOST_NAMED: Final = 6


@dataclass
class Scene:
    """The site, the honest agents, and what watches both."""

    site: Site
    limits: MemoryLimits
    agents: Sequence[GuardedAgent]
    stored: StoredReports
    bus: NatsBus
    ledger: Ledger
    unanswered: Counter[str] = field(default_factory=Counter)
    """Probes of /readyz without an answer, by service."""
    unready: Counter[str] = field(default_factory=Counter)
    """Probes that were answered with another status than 200, by service and status."""


@dataclass(frozen=True, slots=True)
class Span:
    """The beginning and end of a span, and what was read at both. Delays are known only later."""

    began: float
    ended: float
    seen: Beside


async def bounded(
    folder: Path, strictness: Strictness, *, quiet_seconds: float, attack_seconds: float, names: Sequence[str] = ATTACKS
) -> Result:
    """Quiet, each attack, quiet again; then everything honest is looked up."""
    result = Result()
    async with AsyncExitStack() as stack:
        scene = await _open(stack, folder, stack.enter_context(MemoryLimits(declared())))
        working = [asyncio.create_task(agent.run()) for agent in scene.agents]
        watching = [asyncio.create_task(scene.stored.watch()), asyncio.create_task(_probe(scene))]
        stack.callback(lambda: [task.cancel() for task in (*working, *watching)])
        await asyncio.sleep(WARM_SECONDS)
        spans = [await _span(scene, "quiet", quiet_seconds)]
        spans += [await _beside(scene, name, attack_seconds) for name in names]
        spans.append(await _span(scene, "quiet", quiet_seconds))
        for task in working:
            task.cancel()
        await scene.site.worked_off(scene.bus, RECOVERY_SECONDS)
        await asyncio.sleep(1.0)
        seen = [_with_delays(scene, span) for span in spans]
        quiet, rows = joined([one for one in seen if one.name == "quiet"]), [one for one in seen if one.name != "quiet"]
        result.findings = await _honest(scene)
        letters = [what for what in await _named(scene.site) if "dead_letters_by_node" in what and "=honest" in what]
        result.promise("no dead letter is an honest one", not letters)
        _judge(result, rows, quiet, strictness)
        result.max_rss_bytes = max(scene.site.memory.highest.values(), default=0)
        result.facts["max_rss_bytes"] = dict(scene.site.memory.highest)
    return result


async def _open(stack: AsyncExitStack, folder: Path, limits: MemoryLimits) -> Scene:
    names = honest_names()
    attackers = [attacker_of(attack) for attack in ATTACKS]
    here = await stack.enter_async_context(site(folder, agents=(*attackers, *names), limits=limits))
    ledger = Ledger(folder / "ledger.jsonl")
    stack.callback(ledger.close)
    for node in attackers:
        async with _agent_bus(here, node) as bus:
            now = datetime.now(UTC)
            await bus.publish(event_of(described(node, now, cpu_milli=8000), source=f"agent/{node}", time=now))
    agents = []
    for name in names:
        bus = await stack.enter_async_context(_agent_bus(here, name))
        agent = GuardedAgent(name, bus, ledger, pause_seconds=REPORT_SECONDS)
        await agent.follow(stack)
        agents.append(agent)
    bus = await stack.enter_async_context(harness_bus(here.broker.url, "harness", here.access("console")))
    return Scene(here, limits, agents, StoredReports(here, agents), bus, ledger)


def _agent_bus(here: Site, node: str) -> AbstractAsyncContextManager[NatsBus]:
    access = here.access(agent_user(node), api_prefix=AGENT_API_PREFIX)
    return harness_bus(here.broker.url, f"agent of {node}", access)


def attacker_of(attack: str) -> str:
    """Returns the node of an attack, all of them in one partition. Each attack has a node of its own, because one that
    has flooded is held off the broker, twice as long each time.
    """
    name = f"attacker-{attack.replace(' ', '-')}"
    candidates = (f"{name}-{number}" for number in itertools.count())
    return next(node for node in candidates if partition_of(node) == PARTITION)


def honest_names() -> list[str]:
    """Names of honest nodes, the first ones in the attackers' partition."""
    candidates = [f"honest-{number}" for number in range(999)]
    near = [name for name in candidates if partition_of(name) == PARTITION][:NEIGHBOURS]
    return [*near, *(name for name in candidates if name not in near)][:HONEST]


async def _beside(scene: Scene, name: str, seconds: float) -> Span:
    """One attack, and the time afterwards until nothing waits any more."""
    scene.unanswered.clear()
    scene.unready.clear()
    async with _attacker(scene, name, seconds) as process:
        before, died = await _named(scene.site), _deaths(scene)
        span = await _span(scene, name, seconds, process)
        said, _ = await process.communicate()
    counts: dict[str, Any] = json.loads(said) if said.strip() else {}
    began, wrong = time.monotonic(), list[str]() if counts else ["the attacker ended without its counts"]
    try:
        await until(
            lambda: _has_recovered(scene, span.ended), RECOVERY_SECONDS, "honest agents are served as before", 0.3
        )
    except TimeoutError as error:
        wrong.append(str(error))
    recovered = time.monotonic() - began
    answers, grown = Counter(counts.get("answers", {})), Counter[str]()

    async def is_named() -> bool:
        nonlocal grown
        after = await _named(scene.site)
        grown = Counter({what: round(value - before[what]) for what, value in after.items() if value > before[what]})
        return bool(grown or answers or scene.unready)

    try:
        await until(is_named, NAMED_SECONDS, "a metric or an answer names the attack", 1.0)
    except TimeoutError as error:
        wrong.append(str(error))
    named = dict((grown + scene.unready).most_common(MOST_NAMED))
    wrong += [f"{what} was killed or restarted" for what, count in _deaths(scene).items() if count > died[what]]
    wrong += [f"/readyz of {what} was not answered {count} times" for what, count in scene.unanswered.items()]
    seen = replace(
        span.seen,
        sent=counts.get("sent", 0),
        sent_bytes=counts.get("bytes", 0),
        attacker_cpu=counts.get("cpu_seconds", 0.0),
        answers=dict(answers.most_common(MOST_NAMED)),
        named=named,
        wrong=wrong,
        recovered_seconds=round(recovered, 1),
    )
    return replace(span, seen=seen)


async def _has_recovered(scene: Scene, ended: float) -> bool:
    """Whether all that was sent before the end of the attack is stored and limited, and little waits."""
    delayed = any(
        report_key(agent.node, agent.epoch, sequence) not in scene.stored.seen
        for agent in scene.agents
        for sequence, at in agent.sent_at.items()
        if at <= ended
    )
    unlimited = any(limited is None and at <= ended for agent in scene.agents for at, limited in agent.reactions())
    return not delayed and not unlimited and sum((await pending(scene.bus, scene.site.services)).values()) < FEW_WAIT


@asynccontextmanager
async def _attacker(scene: Scene, name: str, seconds: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is ready to attack, and gone afterwards."""
    node = attacker_of(name)
    user = agent_user(node)
    assert scene.site.credentials is not None
    aim = {"node": node, "nats": scene.site.broker.url, "user": user, "seconds": seconds,
           "credentials_file": str(scene.site.credentials / f"{user}.creds"),
           "honest": [agent.node for agent in scene.agents[:3]],
           "services": {service: scene.site.url(service, "") for service in SERVICES}}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.assault", name, "--aim", json.dumps(aim), cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": python_path()},
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _span(scene: Scene, name: str, seconds: float, attacker: asyncio.subprocess.Process | None = None) -> Span:
    """Read everything, let the attacker begin, wait, and read everything again."""
    scene.limits.begin()
    pids = {service: program.pid for service, program in scene.site.programs.items()}
    used = {service: cpu_seconds(pid) for service, pid in pids.items()}
    before, began = read_jiffies(), time.time()
    if attacker is not None and attacker.stdin is not None:
        attacker.stdin.write(b"\n")
        attacker.stdin.close()
    await asyncio.sleep(seconds)
    ended, steal = time.time(), stolen_share(before, read_jiffies())
    cpu = {service: max(0.0, cpu_seconds(pid) - used[service]) for service, pid in pids.items()}
    limits = scene.limits
    peaks = {part: limits.peak(part) for part in limits.limits}
    return Span(began, ended, Beside(name, ended - began, (), (), steal, cpu, peaks, limits.limits))


def _with_delays(scene: Scene, span: Span) -> Beside:
    stored = scene.stored.delays(span.began, span.ended)
    return replace(span.seen, stored=stored, limited=reactions(scene.agents, span.began, span.ended))


def _deaths(scene: Scene) -> Counter[str]:
    """Ends of processes that were not asked for, and kills for memory, by part."""
    ends = Counter({name: program.unasked_exits for name, program in scene.site.programs.items()})
    return ends + Counter(scene.limits.kills()) + Counter({BROKER: int(scene.site.broker.pid is None)})


async def _probe(scene: Scene) -> None:
    """Ask each service for its readiness once a second, over a new connection as a kubelet does."""

    async def ask(client: httpx2.AsyncClient, service: str) -> None:
        try:
            answer = await client.get(scene.site.url(service, "/readyz"), headers={"connection": "close"})
        except httpx2.HTTPError:
            scene.unanswered[service] += 1
            return
        if answer.status_code != 200:
            scene.unready[f"/readyz of {service} {answer.status_code}"] += 1

    async with httpx2.AsyncClient(trust_env=False, timeout=ANSWER_SECONDS) as client:
        while True:
            await asyncio.gather(*(ask(client, service) for service in SERVICES), asyncio.sleep(PROBE_SECONDS))


async def _named(here: Site) -> dict[str, float]:
    """The counters that name an attack, by metric and labels."""
    found: dict[str, float] = defaultdict(float)
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        for service in SERVICES:
            text = (await client.get(here.url(service, "/metrics"), headers={"connection": "close"})).text
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name.startswith(NAMED_BY) and not sample.name.endswith("_created"):
                        labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                        found[f"{sample.name.removeprefix('slackwater_')}{{{labels}}}"] += sample.value
    return found


async def _honest(scene: Scene) -> Findings:
    """Each report and each answer of an honest agent is stored once, and there is nothing in its name beside these."""
    ledger, names = read(scene.ledger.path), [agent.node for agent in scene.agents]
    findings = await reports(
        scene.site, names, {key: one for key, one in ledger.items() if key.kind == "report"}, False
    )
    answers = {key: outcome for key, outcome in ledger.items() if key.kind == "intent.observed"}
    found = []
    for table, column in (("observation", "event_id"), ("eviction", "id")):  # no eviction was asked of them
        sql = f"SELECT {column} FROM console.{table} WHERE body ->> 'node' = ANY($1)"  # noqa: S608
        found += [Key("intent.observed", row[column]) for row in await scene.site.rows(sql, names)]
    return findings + compare(answers, found)


def _judge(result: Result, rows: Sequence[Beside], quiet: Beside, strictness: Strictness) -> None:
    result.lines += lines_of(rows, quiet, strictness.patience)
    result.facts["quiet"] = quiet.facts()
    for row in rows:
        verdict, why = judge(row, quiet, strictness.patience)
        result.facts[row.name] = {**row.facts(), "verdict": str(verdict), "why": why}
        result.promise(f"{row.name}: honest p99 at most twice the quiet one", verdict is not Verdict.MISSED)
        result.promise(f"{row.name}: {'; '.join(row.wrong) or 'named, answered, nothing restarted'}", not row.wrong)
