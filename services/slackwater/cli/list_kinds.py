"""What can be listed: the nouns of `get` and `describe`, with their paths, columns and labels."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slackwater.cli.condition_columns import SCHEDULING
from slackwater.cli.decision_list import DECISION, EVENT, EVENTS
from slackwater.cli.decision_list import PATH as DECISIONS
from slackwater.cli.item_fields import age_at, cpu_at, memory_at, part_of, ratio_at, text_at, unread_mark
from slackwater.cli.offer_columns import OFFER
from slackwater.cli.output import UNKNOWN, Item, TableColumn, age, clock_time, cpu
from slackwater.cli.policy_columns import PREDICTOR
from slackwater.cli.quarantine_columns import QUARANTINE, SET_ASIDE
from slackwater.cli.resource_columns import columns_of
from slackwater.model.errors import InvalidInput
from slackwater.resources import catalog
from slackwater.resources.kind import Kind as ResourceKind


@dataclass(frozen=True, slots=True)
class ListKind:
    """A noun of `get`: the path of its list, the key of an item, its columns, the events that change it, a function to
    the labels of an item (None: items have no labels), and the parameters `node` and `pool` that its list takes.

    Without events only a running instance has the list, and it cannot be watched.
    """

    names: tuple[str, ...]
    path: str
    item_path: str | None
    key: Callable[[Item], str]
    columns: tuple[TableColumn, ...]
    events: str
    labels: Callable[[Item], Mapping[str, str]] | None = None
    filters: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """The singular, as `-o name` and messages use it."""
        return self.names[1]


def _tier(name: str) -> Callable[[Item], str]:
    return lambda item: (
        UNKNOWN if item.get("usage") is None else cpu(part_of(item, "usage", "tiers", name, "cpu_milli") or 0)
    )


def _limit(item: Item) -> str:
    now, before = item.get("cpu_limit_milli"), item.get("original_cpu_limit_milli")
    text = "none" if now is None else cpu(now)
    if now is not None and item.get("throttled"):
        text = f"{cpu(before) if before is not None else 'none'} -> {text}"
    return text + unread_mark(item)


def _limited(item: Item, counted: str, allowed: str) -> str:
    return f"{item[counted]} of {item[allowed]}"


NODE = (
    TableColumn("NAME", text_at("name")),
    TableColumn("LIVENESS", text_at("liveness")),
    SCHEDULING,
    TableColumn("CPU", cpu_at("facts", "capacity"), right=True),
    TableColumn("USED", cpu_at("usage", "usage"), right=True),
    TableColumn("PROD", _tier("prod"), right=True),
    TableColumn("BATCH", _tier("batch"), right=True),
    TableColumn("OFFERED", cpu_at("offer", "batch"), right=True),
    TableColumn("PRESSURE", ratio_at("usage", "prod_pressure"), right=True),
    TableColumn("THROTTLED", text_at("usage", "throttled_pods"), right=True),
    TableColumn("REPORTED", age_at("usage", "sampled_at"), right=True),
    TableColumn("MEMORY", memory_at("facts", "capacity"), right=True, wide=True),
    TableColumn("MEM-USED", memory_at("usage", "usage"), right=True, wide=True),
    TableColumn("MEM-OFFERED", memory_at("offer", "batch"), right=True, wide=True),
    TableColumn("PODS", text_at("usage", "pods"), right=True, wide=True),
    TableColumn("POOL", text_at("facts", "pool"), wide=True),
    TableColumn("DRIVER", text_at("facts", "driver"), wide=True),
    TableColumn("CGROUP", text_at("facts", "cgroup_version"), wide=True),
    TableColumn("KERNEL", text_at("facts", "kernel"), wide=True),
)
POD = (
    TableColumn("NODE", text_at("node")),
    TableColumn("NAME", text_at("name")),
    TableColumn("TIER", text_at("tier")),
    TableColumn("QOS", text_at("qos")),
    TableColumn("CPU", cpu_at("usage"), right=True),
    TableColumn("REQUEST", cpu_at("request"), right=True),
    TableColumn("LIMIT", _limit, right=True),
    TableColumn("PRESSURE", ratio_at("cpu_pressure"), right=True),
    TableColumn("AGE", age_at("started_at"), right=True),
    TableColumn("MEMORY", memory_at("usage"), right=True, wide=True),
    TableColumn("MEM-REQUEST", memory_at("request"), right=True, wide=True),
    TableColumn("STOPPED", ratio_at("throttled_ratio"), right=True, wide=True),
    TableColumn("WORKLOAD", text_at("workload"), wide=True),
    TableColumn("NAMESPACE", text_at("namespace"), wide=True),
    TableColumn("UID", text_at("uid"), wide=True),
)
WORKLOAD = (
    TableColumn("NAMESPACE", text_at("namespace")),
    TableColumn("NAME", text_at("name")),
    TableColumn("TIER", text_at("tier")),
    TableColumn("PODS", text_at("pods"), right=True),
    TableColumn("NODES", text_at("nodes"), right=True),
    TableColumn("CPU", cpu_at("usage"), right=True),
    TableColumn("REQUEST", cpu_at("request"), right=True),
    TableColumn("MEMORY", memory_at("usage"), right=True),
    TableColumn("MEM-REQUEST", memory_at("request"), right=True),
    TableColumn("PRESSURE", ratio_at("cpu_pressure"), right=True),
    TableColumn("THROTTLED", text_at("throttled_pods"), right=True),
    TableColumn("CPU-P95", lambda item: cpu(item["cpu_p95_milli"]), right=True, wide=True),
    TableColumn("REPORTED", age_at("reported_at"), right=True, wide=True),
)
DEAD_LETTER = (
    TableColumn("ID", text_at("position"), right=True),
    TableColumn("GIVEN-UP", age_at("buried_at"), right=True),
    TableColumn("REASON", text_at("reason")),
    TableColumn("NODE", lambda item: item.get("node") or UNKNOWN),
    TableColumn("CONSUMER", text_at("consumer")),
    TableColumn("EVENT", lambda item: item["event_type"].removeprefix("io.slackwater.") or UNKNOWN),
    TableColumn(
        "REPLAYED",
        lambda item: age(item["replays"][-1]["replayed_at"], datetime.now(UTC)) if item["replays"] else UNKNOWN,
    ),
    TableColumn("DETAIL", text_at("detail")),
    TableColumn("SUBJECT", text_at("subject"), wide=True),
    TableColumn("EVENT-ID", text_at("event_id"), wide=True),
)
BLOCKED = (
    TableColumn("NODE", text_at("node")),
    TableColumn("SINCE", age_at("since"), right=True),
    TableColumn("BY", text_at("changed_by")),
    TableColumn("REASON", text_at("reason")),
)
POOL = (
    TableColumn("NAME", lambda item: str(item["pool"])),
    TableColumn("MODE", lambda item: str(item["mode"])),
    TableColumn("GRANTED", lambda item: str(item["granted"])),
    TableColumn("EVICTED-1H", lambda item: _limited(item, "evictions_within_hour", "evictions_per_hour"), right=True),
    TableColumn("UNRELIEVED", lambda item: _limited(item, "missed_in_a_row", "reliefs_missed"), right=True),
    TableColumn("UNTIL", lambda item: clock_time(item["stepped_back_until"])),
    TableColumn("BECAUSE", lambda item: item["because"] or UNKNOWN),
)
"""The current mode of each pool; after a step back also its end and reason."""
SHARDS = (
    TableColumn("SERVICE", text_at("service")),
    TableColumn("PARTITION", text_at("partition"), right=True),
    TableColumn("SHARDS", lambda item: f"{item['first_shard']}-{item['last_shard']}", right=True),
    TableColumn("OWNER", lambda item: item["owner"].partition("/")[0] if item["owner"] else "none"),
    TableColumn("SINCE", age_at("since"), right=True),
    TableColumn("EPOCH", text_at("epoch"), right=True),
    TableColumn("MEMBER", text_at("owner"), wide=True),
    TableColumn("REPORTED", age_at("told_at"), right=True, wide=True),
)


def _resources(kind: ResourceKind) -> ListKind:
    """Resources: only a running instance has them, and they cannot be watched."""
    path, columns = kind.path, columns_of(kind)
    return ListKind(kind.names, path, path + "/{}", _document_name, columns, events="")


def _document_name(document: Item) -> str:
    return str(document["metadata"]["name"])


def _labels_at(*path: str) -> Callable[[Item], Mapping[str, str]]:
    return lambda item: part_of(item, *path) or {}


OFFERS = "/v1/offers"
POLICIES = ""
"""The path of the list of all policies, which is made of the lists of their kinds."""


def _state(document: Item) -> str:
    """The cell STATE of the document's own kind. A kind without one has no status: what is stored is in force, in the
    mode it names.
    """
    columns = columns_of(catalog.kind_named(document["kind"]))
    mode = document["spec"].get("mode")
    stored = f"in force: {mode}" if mode else "in force"
    return next((column.text(document) for column in columns if column.title == "STATE"), stored)


def _author(document: Item) -> str:
    """The author of the last change; a first generation without one came with the installation."""
    metadata = document["metadata"]
    return str(metadata.get("changedBy") or ("installation" if metadata.get("generation") == 1 else UNKNOWN))


POLICY = (
    TableColumn("KIND", text_at("kind")),
    TableColumn("NAME", text_at("metadata", "name")),
    TableColumn("GENERATION", text_at("metadata", "generation"), right=True),
    TableColumn("STATE", _state),
    TableColumn("CHANGED-BY", _author),
)
READ_ONLY_KINDS = (
    ListKind(
        names=("nodes", "node", "no"),
        path="/v1/nodes",
        item_path="/v1/nodes/{}",
        key=lambda item: str(item["name"]),
        columns=NODE,
        events="node.described,node.liveness_changed,node.scheduling_changed,usage.reported,resources.offered",
        labels=_labels_at("facts", "labels"),
        filters=("pool",),
    ),
    ListKind(
        names=("pods", "pod", "po"),
        path="/v1/pods",
        item_path=None,
        key=lambda item: str(item["name"]),
        columns=POD,
        events="usage.reported",
        labels=_labels_at("labels"),
        filters=("node", "pool"),
    ),
    ListKind(
        names=("workloads", "workload", "wl"),
        path="/v1/workloads",
        item_path=None,
        key=lambda item: str(item["name"]),
        columns=WORKLOAD,
        events="usage.reported",
        filters=("node", "pool"),
    ),
    ListKind(
        names=("offers", "offer", "of"),
        path=OFFERS,
        item_path=None,
        key=lambda item: str(item["node"]),
        columns=OFFER,
        events="resources.offered",
    ),
    ListKind(
        names=("decisions", "decision", "dec"),
        path=DECISIONS,
        item_path=DECISIONS + "/{}",
        key=lambda item: str(item["id"]),
        columns=DECISION,
        events="decision.recorded,agent.decision_recorded,effect.measured",
    ),
    ListKind(
        names=("events", "event", "ev"),
        path=EVENTS,
        item_path=None,
        key=lambda item: str(item["id"]),
        columns=EVENT,
        events="",
    ),
    ListKind(
        names=("deadletters", "deadletter", "dl"),
        path="/v1/deadletters",
        item_path="/v1/deadletters/{}",
        key=lambda item: str(item["position"]),
        columns=DEAD_LETTER,
        events="health.reported",
    ),
    ListKind(
        names=("blocked", "blocks", "block"),
        path="/v1/blocks",
        item_path="/v1/nodes/{}/block",
        key=lambda item: str(item["node"]),
        columns=BLOCKED,
        events="",
    ),
    ListKind(
        names=("quarantine", "quarantined", "qu"),
        path=QUARANTINE,
        item_path=None,
        key=lambda item: str(item["id"]),
        columns=SET_ASIDE,
        events="",
    ),
    ListKind(
        names=("shards", "shard", "leases", "sh"),
        path="/v1/shards",
        item_path=None,
        key=lambda item: f"{item['service']}-p{item['partition']}",
        columns=SHARDS,
        events="health.reported",
    ),
    ListKind(
        names=("policies", "policy", "pol"),
        path=POLICIES,
        item_path=None,
        key=_document_name,
        columns=POLICY,
        events="",
    ),
    ListKind(("pools", "pool"), "/v1/pools", None, lambda item: str(item["pool"]), POOL, events=""),
    ListKind(
        names=("predictors", "predictor"),
        path="/v1/predictors",
        item_path="/v1/predictors/{}",
        key=lambda item: str(item["name"]),
        columns=PREDICTOR,
        events="",
    ),
)


def all_kinds() -> Sequence[ListKind]:
    """Everything that can be listed: the lists of the services, then the resources of every kind."""
    return (*READ_ONLY_KINDS, *map(_resources, catalog.KINDS))


def kind_of(word: str) -> ListKind:
    """The noun with this name or alias. Raises InvalidInput with the closest match."""
    for kind in all_kinds():
        if word.lower() in kind.names:
            return kind
    names = {name: kind.names[0] for kind in all_kinds() for name in kind.names}
    if close := difflib.get_close_matches(word.lower(), names, n=1):
        raise InvalidInput(f"{word!r} is not a resource; did you mean {names[close[0]]!r}?")
    raise InvalidInput(f"{word!r} is not a resource; allowed: {', '.join(kind.names[0] for kind in all_kinds())}")


def split_target(what: str, name: str | None) -> tuple[str, str | None]:
    """`node/NAME` or `nodes NAME` as (noun, name)."""
    noun, slash, inside = what.partition("/")
    if slash and name:
        raise InvalidInput(f"{what!r} and {name!r}: two names; give one, as {noun}/NAME or {noun} NAME")
    return noun, inside if slash else name
