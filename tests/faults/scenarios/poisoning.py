"""One agent sends invalid messages with its own credentials: reports of other agents are stored as fast as usual."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nats.errors import Error as NatsError
from prometheus_client.parser import text_string_to_metric_families
from tests.faults.attack import Attacker, HonestAgent, Letter, StoredReports, dead_letters, lines_of, table
from tests.faults.fleet import report_key
from tests.faults.ledger import Ledger
from tests.faults.mutations import Mutation, fresh
from tests.faults.poison import NODE, OF_AGENTS, Corpus, corpus, mutations_in, stream_of, valid_events
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.site import SERVICES, Site, harness_bus, site
from tests.faults.supervisor import until

from slackwater.bus.admin.permissions import agent_user
from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import AGENT_API_PREFIX
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Payload, event_of, subject_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.registry import EVENTS
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.identifiers import partition_of

PER_SECOND, MISTAKES_PER_SECOND = 20.0, 2.0
SLOWER_SECONDS = 0.5
"""Allowed increase of the honest reports' p99 above that of a quiet broker."""
BESIDE_FACTOR, BESIDE_SECONDS = 1.5, 0.1
"""Allowed increase above their p99 beside as many valid messages."""
GOES_ON_SECONDS = 40.0
DEFECTS = ("defect of a reader", "already running", '"service failed"', "service restarts", "ended unexpectedly")
"""Texts that no log may contain. The first two are of slackwater.bus.consume.reader_tasks and of asyncio."""
HONEST = ("honest-a", next(f"honest-{n}" for n in range(999) if partition_of(f"honest-{n}") == partition_of(NODE)))
"""The second node is in the attacker's partition, so the same consumer reads both."""
FROM_SERVICES = tuple(one for one in EVENTS if one not in OF_AGENTS and not one.COMMAND)
BEYOND = "implausible: 100 times the machine"
KEPT = frozenset({"USAGE", "WINDOWS", "DECISIONS"})
"""Streams in which every message is read. In others a message may be superseded before it is read."""


@dataclass
class Attack:
    """All participants. `by_services` are invalid messages of services, published with the console's credentials."""

    site: Site
    agents: Sequence[HonestAgent]
    stored: StoredReports
    valid: HonestAgent
    """The attacker's node while it sends valid messages."""
    by_agent: Attacker
    by_services: Attacker
    console: NatsBus
    corpus: Corpus = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    metrics: Counter[str] = field(default_factory=Counter)


async def poisoning(folder: Path, strictness: Strictness, quiet_seconds: float, poison_seconds: float) -> Result:
    """A quiet phase, the four named cases, invalid messages at a fixed rate, and a restart; then all is judged."""
    result = Result()
    async with AsyncExitStack() as stack:
        attack = await _open(stack, folder)
        watching = asyncio.create_task(attack.stored.watch())
        stack.callback(watching.cancel)
        working = [asyncio.create_task(agent.run()) for agent in attack.agents]
        stack.callback(lambda: [task.cancel() for task in working])
        await attack.console.jetstream.stream_info("DLQ")
        await until(lambda: _has_stored(attack), 30, "the first reports are stored")
        spans = {"quiet": await _span(quiet_seconds), "beside valid": await _beside_valid(attack, quiet_seconds)}
        began = datetime.now(UTC)
        await _send_cases(attack)
        spans["poisoned"] = await _poison(attack, poison_seconds)
        await asyncio.sleep(2.0)
        await _judge_defects(result, attack)
        attack.letters = await dead_letters(attack.console, _streams())
        attack.metrics = await _read_metrics(attack.site)
        await _judge_restart(result, attack)
        await _judge_continuation(result, attack, began)
        for task in working:
            task.cancel()
        await asyncio.sleep(2.0)
        await _judge_reports(result, attack)
        _judge_delays(result, attack, spans, strictness)
        _judge_letters(result, attack)
        result.max_rss_bytes = max(attack.site.memory.highest.values(), default=0)
        result.facts["max_rss_bytes"] = dict(attack.site.memory.highest)
    return result


async def _open(stack: AsyncExitStack, folder: Path) -> Attack:
    """Services on a broker with one account per agent; all connections use their own credentials."""
    here = await stack.enter_async_context(site(folder, agents=(NODE, *HONEST)))
    ledger = Ledger(folder / "ledger.jsonl")
    stack.callback(ledger.close)

    async def agent_bus(node: str) -> NatsBus:
        access = here.access(agent_user(node), api_prefix=AGENT_API_PREFIX)
        return await stack.enter_async_context(harness_bus(here.broker.url, f"agent of {node}", access))

    console = await stack.enter_async_context(harness_bus(here.broker.url, "harness", here.access("console")))
    agents = [HonestAgent(node, await agent_bus(node), ledger) for node in HONEST]
    rogue = await agent_bus(NODE)
    await rogue.publish(valid_events(datetime.now(UTC))[NodeDescribed])
    apart = Ledger(folder / "valid.jsonl")
    stack.callback(apart.close)
    valid = HonestAgent(NODE, rogue, apart, pause_seconds=1 / PER_SECOND)
    return Attack(here, agents, StoredReports(here, agents), valid, Attacker(rogue), Attacker(console), console)


async def _has_stored(attack: Attack) -> bool:
    return len(attack.stored.seen) >= 2 * len(attack.agents)


async def _span(seconds: float) -> tuple[float, float]:
    began = time.time()
    await asyncio.sleep(seconds)
    return began, time.time()


async def _beside_valid(attack: Attack, seconds: float) -> tuple[float, float]:
    """The later attacker as an honest agent, at the rate of the attack."""
    working = asyncio.create_task(attack.valid.run())
    try:
        return await _span(seconds)
    finally:
        working.cancel()
        await asyncio.wait([working])


def beyond_capacity(found: Corpus) -> list[Mutation]:
    """Usage within every bound that exceeds the described machine."""
    return [one for one in found[UsageReported] if one.family == BEYOND and "node_usage" in one.what]


def named_cases(found: Corpus) -> dict[str, list[Mutation]]:
    """The first three cases of the issue; the fourth is the restart of services that read them."""
    texts = mutations_in(found, (UsageReported, WaterlineCrossed, UsageWindowed))
    surrogates = [one for one in texts if one.family == "encoding: lone surrogate"]
    numbers = mutations_in(found, (UsageReported, UsageWindowed))
    integers = [one for one in numbers if one.family in ("range", "time")]
    amounts = mutations_in(found, (UsageWindowed, NodeDescribed, PeakPredicted))
    unstorable = [one for one in amounts if one.family == "range"]
    kept = [one for one in unstorable if "1180591620717411303424" in one.what or "9223372036854775808" in one.what]
    return {
        "1 lone surrogate": surrogates[:60],
        "2 beyond 64 bits": integers[::9][:60],
        "3 cannot be stored": kept[:60],
    }


async def _send_cases(attack: Attack) -> None:
    """Send usage beyond the described capacity first, then the named cases."""
    now = datetime.now(UTC)
    attack.corpus = corpus(now, (*OF_AGENTS, *FROM_SERVICES))
    await attack.valid.bus.publish(event_of(valid_events(now)[NodeDescribed].data, source=NODE, time=now))
    await asyncio.sleep(1.0)
    await attack.by_agent.send([fresh(one) for one in beyond_capacity(attack.corpus)], PER_SECOND)
    for mutations in named_cases(attack.corpus).values():
        own = [fresh(one) for one in mutations if one.payload in OF_AGENTS]
        others = [fresh(one) for one in mutations if one.payload not in OF_AGENTS]
        await asyncio.gather(attack.by_agent.send(own, PER_SECOND), attack.by_services.send(others, PER_SECOND))


async def _poison(attack: Attack, seconds: float) -> tuple[float, float]:
    began = time.time()
    of_agents, of_services = mutations_in(attack.corpus, OF_AGENTS), mutations_in(attack.corpus, FROM_SERVICES)
    await asyncio.gather(
        attack.by_agent.send(stream_of(of_agents), PER_SECOND, seconds),
        attack.by_services.send(stream_of(of_services), MISTAKES_PER_SECOND, seconds),
    )
    return began, time.time()


def _streams() -> dict[str, str]:
    """The stream that each consumer and replay reads."""
    topology = load()
    found = {name: topology.stream_of(name) for name in topology.consumers}
    return found | {"prediction-replay-usage-windowed": "WINDOWS"}


async def _judge_reports(result: Result, attack: Attack) -> None:
    """Every report of the ledger is in the database exactly once."""
    rows = await attack.site.rows(
        "SELECT node, boot_epoch, sequence FROM ingestion.node_usage WHERE node LIKE 'honest-%'"
    )
    kept = Counter(report_key(row["node"], row["boot_epoch"], row["sequence"]) for row in rows)
    meant = [report_key(agent.node, agent.epoch, number) for agent in attack.agents for number in agent.sent_at]
    result.facts["honest_reports"] = len(meant)
    missing = [key.name for key in meant if key not in kept]
    result.facts["honest_reports_missing"] = missing[:10]
    result.promise("every honest report is stored", not missing)
    result.promise("no honest report is stored twice", all(count == 1 for count in kept.values()))


def _judge_delays(
    result: Result, attack: Attack, spans: Mapping[str, tuple[float, float]], strictness: Strictness
) -> None:
    found = {name: attack.stored.delays(*span) for name, span in spans.items()}
    for name, delays in found.items():
        for share, label in ((0.5, "p50"), (0.99, "p99"), (1.0, "max")):
            result.facts[f"seconds from publish to stored, {label}, {name}"] = round(percentile(delays, share), 3)
    p99 = {name: percentile(delays, 0.99) if delays else math.inf for name, delays in found.items()}
    bound = p99["quiet"] + SLOWER_SECONDS * strictness.patience
    kept = all(found.values()) and p99["poisoned"] <= bound
    result.promise(f"honest reports are stored at most {SLOWER_SECONDS:g} s later than in quiet (p99)", kept)
    bound = BESIDE_FACTOR * p99["beside valid"] + BESIDE_SECONDS * strictness.patience
    kept = all(found.values()) and p99["poisoned"] <= bound
    result.promise("honest reports are stored as fast as beside as many valid messages (p99)", kept)


def _judge_letters(result: Result, attack: Attack) -> None:
    sent = [*attack.by_agent.sent, *attack.by_services.sent]
    rows = table(sent, attack.letters, attack.by_agent.refused_by_broker + attack.by_services.refused_by_broker)
    result.facts["poison"] = rows
    refusals, taken = attack.by_agent.refused_by_broker.total(), len(attack.by_agent.sent)
    result.promise(f"the broker takes most that the agent sends ({taken}, not {refusals})", taken > 4 * refusals)
    result.facts["poisoned_messages"] = len(sent)
    result.facts["dead_letters_by_reason"] = dict(Counter(letter.reason for letter in attack.letters))
    result.facts["metrics"] = dict(sorted(attack.metrics.items()))
    result.lines += lines_of(rows)
    honest = [letter for letter in attack.letters if "honest" in letter.subject]
    result.facts["honest_dead_letters"] = len(honest)
    result.promise("no dead letter is an honest one", not honest)
    result.promise("every dead letter has a reason", all(letter.reason for letter in attack.letters))
    result.promise("nothing was tried until max_deliver", all(one.reason != "max_deliver" for one in attack.letters))
    reasons = {(letter.stream, letter.sequence): letter.reason for letter in attack.letters}
    first = [one for one in attack.by_agent.sent if one.mutation.family == BEYOND][
        : len(beyond_capacity(attack.corpus))
    ]
    refused = [reasons.get((one.stream, one.sequence)) for one in first]
    said = bool(refused) and all(refused) and not {"absurd", "implausible"}.isdisjoint(refused)
    result.promise("usage beyond the described machine is refused", said)
    told = reasons.keys()
    unanswered = [one for one in sent if one.mutation.refused and (one.stream, one.sequence) not in told]
    limited = [one for one in unanswered if one.stream in KEPT]
    dropped = sum(count for name, count in attack.metrics.items() if name.startswith("dropped"))
    result.promise("what must be refused was refused, or counted where letters are limited", len(limited) <= dropped)


async def _judge_defects(result: Result, attack: Attack) -> None:
    here = attack.site
    logs = {name: program.log_file.read_text(errors="replace") for name, program in here.programs.items()}
    defects = {f"{name}: {line}": count for name, log in logs.items() for line in DEFECTS if (count := log.count(line))}
    failures = {name: count for name, log in logs.items() if (count := log.count("handler failed"))}
    died = {name: program.unasked_exits for name, program in here.programs.items() if program.unasked_exits}
    result.facts |= {"defects_in_logs": defects, "handler_failures": failures, "died": died}
    result.promise("no service died of an invalid message", not died)
    result.promise("no reader or service failed", not defects)
    most = 2 * len([*attack.by_agent.sent, *attack.by_services.sent])
    result.promise("a handler fails at most twice for a message", all(count <= most for count in failures.values()))
    result.promise("every service is ready", all([await here.ready(name) for name in here.programs]))
    redelivered = await _redeliveries(attack)
    result.facts["redeliveries_to_a_partition_without_poison"] = redelivered
    result.promise("no honest report was delivered again", redelivered == 0)


async def _redeliveries(attack: Attack) -> int:
    """Redeliveries of the ingestion consumer that reads the first honest node and not the attacker."""
    name = f"ingestion-usage-reported-p{partition_of(HONEST[0])}"
    for consumer in await attack.console.jetstream.consumers_info("USAGE"):
        if consumer.name == name and consumer.delivered is not None:
            return max(0, consumer.delivered.consumer_seq - attack.agents[0].sequence)
    return -1


async def _read_metrics(here: Site) -> Counter[str]:
    """The services' counters of redeliveries, dead letters and letters that were not stored."""
    found: Counter[str] = Counter()
    for name in here.programs:
        text = (await here.http.get(here.url(name, "/metrics"))).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if sample.name == "slackwater_bus_dead_letters_dropped_total":
                    found[f"dropped {labels.get('consumer', name)}"] += int(sample.value)
                elif sample.name == "slackwater_bus_dead_letters_total":
                    found[f"dead letters {labels.get('reason', '')}"] += int(sample.value)
                elif sample.name == "slackwater_bus_redeliveries_total" and sample.value:
                    found[f"redeliveries {labels.get('consumer', name)}"] += int(sample.value)
    return found


async def _judge_restart(result: Result, attack: Attack) -> None:
    """Cases 3 and 4: a service stops while it reads, and starts again with its stored state."""
    here = attack.site
    for name in SERVICES:
        program, size = here.programs[name], len(here.programs[name].log_file.read_bytes())
        await program.stop()
        said = program.log_file.read_bytes()[size:].decode(errors="replace")
        result.promise(f"{name} stops without a defect", not any(line in said for line in DEFECTS))
        await program.start()
    try:
        await here.await_ready(SERVICES)
    except TimeoutError as error:
        result.facts["not_ready"] = str(error)
        result.promise("every service starts again", False)


async def _judge_continuation(result: Result, attack: Attack, began: datetime) -> None:
    """Honest nodes get new predictions and offers after the restart."""
    restarted = datetime.now(UTC)
    for payload, since in ((PeakPredicted, restarted), (ResourcesOffered, began)):
        for agent in attack.agents:

            async def is_new(payload: type[Payload] = payload, node: str = agent.node, since: datetime = since) -> bool:
                made = await _made_at(attack.console, payload, node)
                return made is not None and made > since

            text = f"{payload.TYPE} of {agent.node} goes on"
            try:
                await until(is_new, GOES_ON_SECONDS, text, 0.3)
                result.promise(text, True)
            except TimeoutError:
                result.promise(text, False)


async def _made_at(bus: NatsBus, payload: type[Payload], node: str) -> datetime | None:
    """The time of the newest event of a node; None if there is none."""
    subject = subject_of(valid_events(datetime.now(UTC), node)[payload].data)
    try:
        message = await bus.jetstream.get_msg(payload.STREAM, subject=subject)
    except NatsError:
        return None
    return datetime.fromisoformat((message.headers or {})["ce-time"])
