"""`slackwater get`: lists of nodes, pods, offers, decisions, dead letters, blocked agents, quarantines and shards."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.condition_columns import SCHEDULING
from slackwater.cli.decision_list import DECISION, EVENT, EVENT_FILTERS, EVENTS, FILTERS, question
from slackwater.cli.guard_columns import POOL
from slackwater.cli.item_fields import age_at, cpu_at, memory_at, part_of, ratio_at, text_at
from slackwater.cli.offer_columns import OFFER, sums_line, with_pools
from slackwater.cli.output import UNKNOWN, Format, Item, TableColumn, age, cpu, errors_to_stderr, print_object, table
from slackwater.cli.policy_columns import PREDICTOR
from slackwater.cli.quarantine_columns import QUARANTINE, SET_ASIDE, set_aside
from slackwater.cli.resource_columns import columns_of
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.resources import catalog
from slackwater.resources.kind import Kind as ResourceKind

if TYPE_CHECKING:
    from slackwater.cli.client import Reader


@dataclass(frozen=True, slots=True)
class ListKind:
    """A noun of `get`: the path of its list, the key of an item, its columns, and the events that change it.

    Without events only a running instance has the list, and it cannot be watched.
    """

    names: tuple[str, ...]
    path: str
    item_path: str | None
    key: Callable[[Item], str]
    columns: tuple[TableColumn, ...]
    events: str


def _tier(name: str) -> Callable[[Item], str]:
    return lambda item: (
        UNKNOWN if item.get("usage") is None else cpu(part_of(item, "usage", "tiers", name, "cpu_milli") or 0)
    )


def _limit(item: Item) -> str:
    now, before = item.get("cpu_limit_milli"), item.get("original_cpu_limit_milli")
    if now is None:
        return "none"
    return f"{cpu(before) if before is not None else 'none'} -> {cpu(now)}" if item.get("throttled") else cpu(now)


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
SHARDS = (
    TableColumn("SERVICE", text_at("service")),
    TableColumn("PARTITION", text_at("partition"), right=True),
    TableColumn("SHARDS", lambda item: f"{item['first_shard']}-{item['last_shard']}", right=True),
    TableColumn("OWNER", lambda item: item["owner"].partition("/")[0] if item["owner"] else "nobody"),
    TableColumn("SINCE", age_at("since"), right=True),
    TableColumn("EPOCH", text_at("epoch"), right=True),
    TableColumn("MEMBER", text_at("owner"), wide=True),
    TableColumn("TOLD", age_at("told_at"), right=True, wide=True),
)


def _resources(kind: ResourceKind) -> ListKind:
    """Resources: only a running instance has them, and they cannot be watched."""
    path, columns = kind.path, columns_of(kind)
    return ListKind(kind.names, path, path + "/{}", lambda item: str(item["metadata"]["name"]), columns, events="")


OFFERS = "/v1/offers"
WHOLE = ""
"""Key of the whole object among the rows."""
READ_ONLY_KINDS = (
    ListKind(
        names=("nodes", "node", "no"),
        path="/v1/nodes",
        item_path="/v1/nodes/{}",
        key=lambda item: str(item["name"]),
        columns=NODE,
        events="node.described,node.liveness_changed,node.scheduling_changed,usage.reported,resources.offered",
    ),
    ListKind(
        names=("pods", "pod", "po"),
        path="/v1/pods",
        item_path=None,
        key=lambda item: str(item["name"]),
        columns=POD,
        events="usage.reported",
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
        path="/v1/decisions",
        item_path="/v1/decisions/{}",
        key=lambda item: str(item["id"]),
        columns=DECISION,
        events="decision.recorded,effect.measured",
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


def complete_noun(begun: str) -> list[str]:
    """The nouns with this prefix, for shell completion."""
    return [kind.names[0] for kind in all_kinds() if kind.names[0].startswith(begun.lower())]


def kind_of(word: str) -> ListKind:
    """The noun with this name or alias. Raises InvalidInput with the closest match."""
    for kind in all_kinds():
        if word.lower() in kind.names:
            return kind
    close = difflib.get_close_matches(word.lower(), [name for kind in all_kinds() for name in kind.names], n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidInput(f"{word!r} is not a resource; {hint}allowed: {', '.join(kind.names[0] for kind in all_kinds())}")


def split_target(what: str, name: str | None) -> tuple[str, str | None]:
    """`node/NAME` or `nodes NAME` as (noun, name)."""
    noun, slash, inside = what.partition("/")
    if slash and name:
        raise InvalidInput(f"{what!r} and {name!r}: two names; give one, as {noun}/NAME or {noun} NAME")
    return noun, inside if slash else name


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]",
            help=", ".join(kind.names[0] for kind in all_kinds()),
            autocompletion=complete_noun,
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="only this object")] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="omit the header")] = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="print changes until Ctrl-C")] = False,
    node: Annotated[str | None, typer.Option("--node", help="pods, decisions and events: only of this node")] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="decisions: only those of this pool; offers: also their sums")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="NAME=VALUE",
            help=f"decisions: {', '.join(FILTERS)}; events: {', '.join(EVENT_FILTERS)}; repeat for several",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="decisions, events: maximum number")] = 50,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """List nodes, pods, offers, decisions, stored events (events), dead letters, blocked agents (blocked), quarantined
    rows (quarantine), the owners of shards (shards), the autonomy of pools (pools), peak models (predictors), or the
    resources of a kind (docs/reference/resources.md).

    Examples: `slackwater get nodes`, `slackwater get node/edge-7 -o json`, `slackwater get decisions --node edge-7 -w`,
    `slackwater get events --where types=state.* --where since=1d`,
    `slackwater get decisions --pool edge --where kind=evict --where since=1h --where carriedOut=false`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, only = split_target(what, name)
        params = question(kind_of(noun).path, node, pool, where, limit)
        kind = kind_of(noun) if params else of_pool(kind_of(noun), pool)
        with reading(server) as reader:
            require_running_instance(kind, reader, watch=watch)
            seen = _show(reader, kind, only, node, params, output, not no_headers)
            if watch:
                _watch(reader, kind, only, node, params, output, seen)


def of_pool(kind: ListKind, pool: str | None) -> ListKind:
    """Restricts the list to one pool. Raises InvalidInput if the list has no pool filter."""
    if pool is None:
        return kind
    if kind.path != OFFERS:
        raise InvalidInput(
            f"--pool: {kind.names[0]} cannot be filtered by pool; allowed: offers, decisions", field="--pool"
        )
    from urllib.parse import quote

    return replace(kind, path=f"/v1/pools/{quote(pool, safe='')}/offers")


def require_running_instance(kind: ListKind, reader: Reader, *, watch: bool = False) -> None:
    """Raises InvalidInput if only a running instance has this list, or if it cannot be watched."""
    if not kind.events and not reader.live:
        raise InvalidInput(f"{kind.names[0]} need a running instance: start one with `slackwater up`")
    if not kind.events and watch:
        raise InvalidInput(f"--watch: {kind.names[0]} cannot be watched; repeat the command instead", field="--watch")


def _fetch(reader: Reader, kind: ListKind, only: str | None, node: str | None, params: Mapping[str, Any]) -> Any:
    if only and kind.item_path:
        from urllib.parse import quote

        return reader.get(kind.item_path.format(quote(only, safe="")))
    answer = whole(reader, kind.path) if not params else reader.get(kind.path, params)
    items = [item for item in answer["items"] if node in (None, item.get("node", item.get("name")))]
    if only:
        return _only(items, kind, only)
    return {**answer, "items": items}


def whole(reader: Reader, path: str) -> dict[str, Any]:
    """All pages of a list, combined."""
    if path == QUARANTINE:
        return {"items": set_aside(reader)}
    items: list[Item] = []
    token: str | None = None
    while True:
        page = reader.get(path, {"continue": token})
        items += page["items"]
        token = page.get("continue")
        if token is None:
            return {**page, "items": items}


def _only(items: Sequence[Item], kind: ListKind, only: str) -> Any:
    items_found = [item for item in items if kind.key(item) == only]
    if items_found:
        return items_found[0] if len(items_found) == 1 else {"items": items_found}
    close = difflib.get_close_matches(only, [kind.key(item) for item in items], n=3, cutoff=0.5)
    hint = "; did you mean " + " or ".join(repr(each) for each in close) + "?" if close else ""
    raise NotFound(f"{kind.names[1]} {only!r} is not known{hint}")


def _show(
    reader: Reader,
    kind: ListKind,
    only: str | None,
    node: str | None,
    params: Mapping[str, Any],
    output: Format,
    headers: bool,
) -> dict[str, str]:
    answer = _fetch(reader, kind, only, node, params)
    if output in (Format.JSON, Format.YAML):
        print_object(answer, output)
        return {WHOLE: repr(answer)}
    items = as_recorded(answer.get("items", [answer]), reader)
    if kind.columns is OFFER and output is Format.WIDE:
        items = with_pools(items, reader, whole)
    if not items:
        from slackwater.cli.output import message

        message(_nothing(kind, node, params))
    for line in table(items, kind.columns, wide=output is Format.WIDE, headers=headers and bool(items)):
        print(line, flush=True)
    if headers and "sums" in answer and only is None and node is None:
        print(sums_line(answer), flush=True)
    return {kind.key(item): repr(item) for item in items}


def _nothing(kind: ListKind, node: str | None, params: Mapping[str, Any]) -> str:
    """The message for an empty list. Names the filter, because a typo in it must not look like an empty fleet."""
    asked = {"node": node, **{name: value for name, value in params.items() if name != "limit"}}
    filters = [f"{name} {value}" for name, value in asked.items() if value]
    return f"no {kind.names[0]} with {', '.join(filters)}" if filters else f"no {kind.names[0]} yet"


def as_recorded(items: Sequence[Item], reader: Reader) -> Sequence[Item]:
    """Marks the liveness of nodes as past if the instance is stopped, because its data are not current."""
    if reader.live:
        return items
    return [{**item, "liveness": f"was {item['liveness']}"} if item.get("liveness") else item for item in items]


def _watch(
    reader: Reader,
    kind: ListKind,
    only: str | None,
    node: str | None,
    params: Mapping[str, Any],
    output: Format,
    seen: dict[str, str],
) -> None:
    """Print the rows that changed after each event; as json and yaml the whole object.

    The list is read again when the stream opens, because no event reports changes since the first answer.
    """
    if not reader.live:
        raise InvalidInput("--watch needs a running instance: start one with `slackwater up`")
    for _ in reader.follow(kind.events):
        answer = _fetch(reader, kind, only, node, params)
        if output in (Format.JSON, Format.YAML):
            if seen.get(WHOLE) != repr(answer):
                print_object(answer, output)
            seen[WHOLE] = repr(answer)
            continue
        items = answer.get("items", [answer])
        if kind.columns is OFFER and output is Format.WIDE:
            items = with_pools(items, reader, whole)
        changed = [item for item in items if seen.get(kind.key(item)) != repr(item)]
        seen.update((kind.key(item), repr(item)) for item in items)
        for line in table(changed, kind.columns, wide=output is Format.WIDE, headers=False):
            print(line, flush=True)
