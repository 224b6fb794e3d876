"""Compares the ledger with PostgreSQL, the streams and the agents' effects: collects the facts for the oracle."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from tests.faults.fleet import Fleet, event_id, report_key
from tests.faults.ledger import Key, Outcome, read
from tests.faults.oracle import Findings, Track, compare, gaps, monotone
from tests.faults.site import Site

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.decision_recorded import KEPT_PER_SUBJECT, DecisionRecorded
from slackwater.model.bounds import MOST_COUNT

_KEPT_OF_A_NODE = load().streams["AGENTS"].max_messages_per_subject or MOST_COUNT
_KEPT_OF_A_SUBJECT = load().streams["DECISIONS"].max_messages_per_subject or MOST_COUNT
_UNDER_WAY = 4
"""Number of a node's newest windows that may not have a prediction yet: one waits for the next slot of its partition,
the others for a report."""


async def audit(site: Site, fleet: Fleet, bus: NatsBus, *, telemetry_may_vanish: bool = False,
                strangers: bool = False) -> Findings:  # fmt: skip
    """Compares all operations of a fleet with the state of the services. Call it after the site has settled.

    `strangers`: other publishers exist, so facts that are not in the ledger are ignored.
    """
    ledger = read(fleet.ledger.path)
    findings = await reports(site, fleet.nodes, ledger, telemetry_may_vanish)
    findings += await _facts(site, bus, ledger, strangers)
    findings += await _policies(site, ledger)
    if strangers:
        return findings + monotone(fleet.applied)  # facts caused by other publishers may have been refused
    if "ensurance" in site.services:
        findings += await _decisions(site, bus, ledger)
    if "prediction" in site.services:
        findings += await windows(site, bus, telemetry_may_vanish)
    return findings + monotone(fleet.applied) + await refused_rows(site)


async def reports(site: Site, nodes: Container[str], ledger: Mapping[Key, Outcome], may_vanish: bool) -> Findings:
    kept = await site.rows("SELECT node, boot_epoch, sequence FROM ingestion.node_usage")
    kept = [row for row in kept if row["node"] in nodes]
    found = [report_key(row["node"], row["boot_epoch"], row["sequence"]) for row in kept]
    findings = compare(_of(ledger, "report"), found, may_vanish=may_vanish)
    tracks: dict[str, Track] = defaultdict(Track)
    for key in _of(ledger, "report"):
        node, epoch, sequence = key.name.split("|")
        tracks[node].offered[epoch].add(int(sequence))
    for row in kept:
        tracks[row["node"]].kept[row["boot_epoch"]].append(row["sequence"])
    for row in await site.rows("SELECT name, gaps FROM ingestion.nodes"):
        if row["name"] in nodes:
            tracks[row["name"]].counted = row["gaps"]
    return findings + gaps({name: track for name, track in tracks.items() if name in nodes})


async def _facts(site: Site, bus: NatsBus, ledger: Mapping[Key, Outcome], strangers: bool) -> Findings:
    """Facts that agents publish durably: each is once in the stream and once in the console's read model. The stream
    keeps the newest of a node; where that is all it holds, the read model alone shows what is lost.
    """
    meant = _of(ledger, "intent.observed")
    answers = await messages(bus, "intent.observed")
    kept = [(headers.get("ce-id", ""), json.loads(body)["node"]) for headers, body in answers]
    stored = [Key("intent.observed", identity) for identity, _ in kept]
    is_full = max(Counter(node for _, node in kept).values(), default=0) >= _KEPT_OF_A_NODE
    is_cut = is_full and "console" in site.services
    findings = compare(meant, [key for key in stored if key in meant or not strangers], may_vanish=is_cut)
    if "console" in site.services:
        rows = await site.rows("SELECT event_id FROM console.observation")
        shown = [Key("intent.observed", row["event_id"]) for row in rows]
        read_model = compare(meant, [key for key in shown if key in meant or not strangers])
        findings += _only_faults(read_model)
    described = _of(ledger, "node.described")
    known = await site.rows("SELECT count(*) FROM ingestion.nodes WHERE facts IS NOT NULL")
    missing = sum(outcome is Outcome.ACKED for outcome in described.values()) - known[0][0]
    return findings + Findings(lost=max(0, missing))


async def _policies(site: Site, ledger: Mapping[Key, Outcome]) -> Findings:
    """Each acked change of the policy is one generation, and there are no other generations."""
    meant = _of(ledger, "policy")
    if not meant:
        return Findings()
    newest = await site.value("SELECT generation FROM ensurance.node_qos WHERE name = 'default'")
    return compare(meant, [Key("policy", str(number)) for number in range(2, (newest or 1) + 1)])


async def _decisions(site: Site, bus: NatsBus, ledger: Mapping[Key, Outcome]) -> Findings:
    """A report causes at most one decision; each decision has a published report; each is in the console."""
    reports = {event_id(key) for key in ledger if key.kind == "report"}
    before = set[str]()
    if "console" in site.services:  # read first: predictions go on while streams are read
        before = {row["id"] for row in await site.rows("SELECT id FROM console.decision")}
    recorded = [_record(body) for _, body in await messages(bus, "decision.recorded")]
    own = [one for one in recorded if one["service"] == "ensurance"]
    by_report = Counter(one["trigger_event_id"] for one in own if one["trigger_event_id"])
    doubled = [key for key, count in by_report.items() if count > 1]
    strange = [key for key in by_report if key not in reports]
    findings = Findings(
        offered=len(own),
        acked=len(own),
        duplicates=len(doubled),
        phantom=len(strange),
        examples=tuple(f"decisions for one report: {key}" for key in doubled[:2])
        + tuple(f"decision without a report: {key}" for key in strange[:2]),
    )
    if "console" not in site.services:
        return findings
    recorded += [_record(body) for _, body in await messages(bus, "agent.decision_recorded")]
    in_stream = {Key("decision", one["id"]): Outcome.ACKED for one in recorded}
    kept = Counter(_place(one) for one in recorded)
    cut = {place for place, count in kept.items() if place[0] in KEPT_PER_SUBJECT and count >= _KEPT_OF_A_SUBJECT}
    rows = await site.rows("SELECT id, kind, node, subject FROM console.decision")
    found = [(Key("decision", row["id"]), _place(dict(row))) for row in rows]
    shown = [key for key, place in found if key in in_stream or (key.name in before and place not in cut)]
    return findings + _only_faults(compare(in_stream, shown))


async def windows(site: Site, bus: NatsBus, may_have_holes: bool) -> Findings:
    """Each window is published once. Each prediction belongs to a window and is published once per resource. Every node
    has a prediction from one of its last windows (the newest waits for later messages)."""
    told = [(headers["ce-id"], json.loads(body)) for headers, body in await messages(bus, "usage.windowed")]
    numbers = Counter((window["node"], window["number"]) for _, window in told)
    doubled = [f"window told twice: {node} {number}" for (node, number), count in numbers.items() if count > 1]
    records = [_record(body) for _, body in await messages(bus, "decision.recorded")]
    predictions = [record for record in records if record["kind"] == "prediction"]
    made = {record["trigger_event_id"] for record in predictions}
    known = {identity for identity, _ in told}
    holes = [] if may_have_holes else _holes(numbers)
    unpredicted = _unpredicted([window for _, window in told], predictions)
    again = [f"told twice: {identity}" for identity, count in _counted(predictions).items() if count > 1]
    strange = [f"prediction without window: {identity}" for identity in made if identity not in known]
    return Findings(
        offered=len(told),
        acked=len(told),
        lost=len(unpredicted) + len(holes),
        duplicates=len(doubled) + len(again),
        phantom=len(strange),
        examples=tuple([*doubled, *unpredicted, *holes, *again, *strange][:4]),
    )


def _place(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["kind"], record["node"], record["subject"]


def _record(body: bytes) -> dict[str, Any]:
    """A decision record, whole: its large parts travel packed."""
    found: dict[str, Any] = DecisionRecorded.model_validate_json(body).record.model_dump(mode="json")
    return found


def _counted(records: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(record["id"] for record in records)


def _unpredicted(windows: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Nodes whose newest prediction of a resource is much older than their newest window."""
    newest: dict[tuple[str, str], int] = defaultdict(int)
    for record in records:
        place = (record["node"], record["subject"])
        newest[place] = max(newest[place], int(record["inputs"][0]["value"]))
    heard: dict[str, list[int]] = defaultdict(list)
    for window in windows:
        heard[window["node"]].append(window["number"])
    return [
        f"{node} without a new {subject}"
        for node, numbers in heard.items()
        for subject in ("prod-cpu-peak", "prod-memory-peak")
        if len(numbers) > _UNDER_WAY and newest[node, subject] < sorted(numbers)[-_UNDER_WAY]
    ]


def _holes(numbers: Mapping[tuple[str, int], int]) -> list[str]:
    """Missing windows between the first and the last of a node that reported continuously."""
    by_node: dict[str, set[int]] = defaultdict(set)
    for node, number in numbers:
        by_node[node].add(number)
    return [
        f"window never told: {node} {number}"
        for node, told in by_node.items()
        for number in range(min(told), max(told))
        if number not in told
    ]


async def refused_rows(site: Site) -> Findings:
    """Refused outbox rows, each of which is a lost fact."""
    found = Findings()
    for service in site.services:
        refused = await site.value(f"SELECT count(*) FROM {service}.outbox WHERE refused IS NOT NULL")  # noqa: S608
        found += Findings(lost=refused or 0, examples=(f"{refused} refused in outbox of {service}",) if refused else ())
    return found


async def messages(bus: NatsBus, event: str) -> list[tuple[Mapping[str, str], bytes]]:
    """Headers and bodies of all stored messages of one event type, in order."""
    return await on_subject(bus, f"sw.v1.{event}.>")


async def on_subject(
    bus: NatsBus, subject: str, *, headers_only: bool = False
) -> list[tuple[Mapping[str, str], bytes]]:
    """Headers and bodies of all stored messages of a subject filter, in order."""
    stream = await bus.jetstream.find_stream_name_by_subject(subject)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.ALL, inactive_threshold=30,
                            headers_only=headers_only)  # fmt: skip
    reader = await bus.jetstream.pull_subscribe(subject, stream=stream, config=config)
    found: list[tuple[Mapping[str, str], bytes]] = []
    left = (await reader.consumer_info()).num_pending or 0
    while len(found) < left:
        try:
            batch = await reader.fetch(min(500, left - len(found)), timeout=10)
        except (NatsTimeout, NatsError) as error:
            raise TimeoutError(f"{subject}: {len(found)} of {left} messages could be read") from error
        found += [(message.headers or {}, message.data) for message in batch]
    await reader.unsubscribe()
    return found


async def dead_letters(bus: NatsBus) -> Counter[str]:
    """Counts by `consumer/reason`."""
    letters = await on_subject(bus, "sw.v1.dlq.>", headers_only=True)
    return Counter(f"{headers.get('sw-consumer')}/{headers.get('sw-reason')}" for headers, _ in letters)


def _of(ledger: Mapping[Key, Outcome], kind: str) -> dict[Key, Outcome]:
    return {key: outcome for key, outcome in ledger.items() if key.kind == kind}


def _only_faults(found: Findings) -> Findings:
    """The findings without counts of operations, for facts that are compared in a second place."""
    return replace(found, offered=0, acked=0, unknown=0)


def keys(kind: str, names: Iterable[Any]) -> Sequence[Key]:
    return [Key(kind, str(name)) for name in names]
