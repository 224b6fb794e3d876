"""`slackwater get`: lists of nodes, pods, workloads, decisions, resources and all else that has a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.complete import complete_name, complete_node, complete_noun, complete_pool
from slackwater.cli.decision_groups import GROUP, grouped
from slackwater.cli.decision_list import EVENT_FILTERS, FILTERS, question
from slackwater.cli.decision_list import PATH as DECISIONS
from slackwater.cli.list_kinds import OFFERS, ListKind, all_kinds, kind_of, split_target
from slackwater.cli.list_reader import as_recorded, fetch, whole
from slackwater.cli.offer_columns import OFFER, sums_line, why_none, with_pools
from slackwater.cli.output import Format, Item, errors_to_stderr, message, print_object, table
from slackwater.cli.output_form import ALLOWED, OutputForm, complete_output, parse_output
from slackwater.cli.selection import columns_among, parse_cells, parse_selector, sort_items, with_cells
from slackwater.model.errors import InvalidInput
from slackwater.resources.selectors import Selector

if TYPE_CHECKING:
    from slackwater.cli.client import Reader

TOPOLOGY = "topology"
"""No list of the API: the agent of this machine has it."""
WHOLE = ""
"""Key of the whole object among the rows."""
UNASKED = ("limit", "excludeKind")
"""Parameters of requests that the command line did not name."""
_NOTHING = {
    "blocked": "no agent is blocked",
    "quarantine": "nothing is in quarantine",
    "deadletters": "no dead letters",
}
"""Messages for empty lists of what is rather not there."""
NAMESPACED = ("/v1/pods", "/v1/workloads")
GROUPED_FROM = 500
"""Decisions that are read to make groups of."""


What = Annotated[
    str,
    typer.Argument(
        metavar="KIND[/NAME]",
        help=", ".join(kind.names[0] for kind in all_kinds()),
        autocompletion=complete_noun,
    ),
]
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="only this object", autocompletion=complete_name)]
Output = Annotated[str, typer.Option("-o", "--output", metavar="FORM", help=ALLOWED, autocompletion=complete_output)]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="omit the header")]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="print changes until Ctrl-C")]
LabelSelector = Annotated[
    str | None, typer.Option("-l", "--selector", help="nodes, pods: only with these labels, as kubectl takes them")
]
SortBy = Annotated[
    str | None, typer.Option("--sort-by", help="a column, or a path like .metadata.name; -COLUMN: descending")
]
OnlyNode = Annotated[
    str | None,
    typer.Option("--node", help="pods, workloads, decisions, events: only of this node", autocompletion=complete_node),
]
OnlyNamespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="pods, workloads: only of this namespace; default: all")
]
OnlyPool = Annotated[
    str | None,
    typer.Option(
        "--pool",
        help="nodes, pods, workloads, decisions: only of this pool; offers: also their sums",
        autocompletion=complete_pool,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help=f"decisions: {', '.join(FILTERS)}; events: {', '.join(EVENT_FILTERS)}; other lists: a column, for example "
        "tier=batch of pods; repeat for several",
    ),
]
Every = Annotated[bool, typer.Option("-a", "--all", help="decisions: also predictions, and one line for each decision")]
MaximumNumber = Annotated[int, typer.Option("--limit", min=1, max=500, help="decisions, events: maximum number")]
Server = Annotated[str | None, typer.Option("--server", help="URL; default: the instance of this state directory")]


def command(
    what: What,
    name: Name = None,
    output: Output = Format.TABLE.value,
    no_headers: NoHeaders = False,
    watch: Watch = False,
    selector: LabelSelector = None,
    sort_by: SortBy = None,
    node: OnlyNode = None,
    pool: OnlyPool = None,
    namespace: OnlyNamespace = None,
    where: Where = None,
    every: Every = False,
    limit: MaximumNumber = 50,
    server: Server = None,
) -> None:
    """List nodes, pods, workloads, offers, decisions, stored events (events), dead letters, blocked agents (blocked),
    quarantined rows (quarantine), the owners of shards (shards), the autonomy of pools (pools), peak models
    (predictors), the resources of a kind (docs/reference/resources.md), or those of all kinds (policies); topology is
    the CPUs of this machine and the pods that have them.

    Decisions of one episode are one line; predictions are not listed. --all lists every decision.

    Examples: `slackwater get nodes -l zone=a --sort-by -used`, `slackwater get pods --where tier=batch -o name`,
    `slackwater get node/edge-7 -o jsonpath='{.offer.batch.cpu_milli}'`, `slackwater get decisions --node edge-7 -w`,
    `slackwater get events --where types=state.* --where since=1d`,
    `slackwater get decisions --pool edge --where kind=evict --where since=1h --where carriedOut=false`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, only = split_target(what, name)
        if noun == TOPOLOGY:
            from slackwater.cli.topology import print_topology

            print_topology(only, parse_output(output), headers=not no_headers)
            return
        kind = kind_of(noun)
        form = parse_output(output)
        groups = kind.path == DECISIONS and not (every or only or form.is_object or form.names)
        params = question(kind.path, node, pool, where, GROUPED_FROM if groups else limit, every=every)
        labels = _selector(kind, selector)
        view = ListView(
            kind=replace(kind, columns=GROUP) if groups else kind,
            only=only,
            params=params or _filters(kind, node, pool),
            node=None if params or "node" in kind.filters else node,
            labels=labels,
            cells={} if params else parse_cells(where or (), kind.columns),
            namespace=_namespace(kind, namespace),
            form=form,
            order=sort_by,
            headers=not no_headers,
            groups=limit if groups else 0,
        )
        if not params:
            view = replace(view, kind=of_pool(kind, pool))
        with reading(server) as reader:
            require_running_instance(view.kind, reader, watch=watch)
            seen = _show(reader, view)
            if watch:
                _watch(reader, view, seen)


@dataclass(frozen=True, slots=True)
class ListView:
    """What to list and how to print it. `node`, `labels` and `cells` filter here, `params` on the server. `groups` is
    the largest number of groups of decisions to print; 0: decisions are not grouped.
    """

    kind: ListKind
    only: str | None
    params: Mapping[str, Any]
    node: str | None
    labels: Selector | None
    cells: Mapping[str, str]
    form: OutputForm
    order: str | None
    headers: bool
    groups: int = 0
    namespace: str | None = None

    def rows(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items of an answer as rows: grouped and sorted."""
        if self.groups and len(items) == GROUPED_FROM:
            message(f"made of the newest {GROUPED_FROM} decisions; steps before them are not counted")
        rows = grouped(items)[: self.groups] if self.groups else items
        return sort_items(rows, self.kind.columns, self.order)

    def key(self, item: Item) -> str:
        """Identifies a row between two answers."""
        return f"{item['first_at']} {item['node']} {item['subject']}" if self.groups else self.kind.key(item)


def _selector(kind: ListKind, text: str | None) -> Selector | None:
    if text is None:
        return None
    if kind.labels is None:
        allowed = ", ".join(kind.names[0] for kind in all_kinds() if kind.labels)
        raise InvalidInput(f"--selector: {kind.names[0]} have no labels; allowed: {allowed}", field="selector")
    return parse_selector(text)


def _namespace(kind: ListKind, name: str | None) -> str | None:
    """Raises InvalidInput if items of this kind are in no namespace."""
    if name is not None and kind.path not in NAMESPACED:
        raise InvalidInput(f"--namespace: {kind.names[0]} have none; allowed: pods, workloads", field="namespace")
    return name


def _filters(kind: ListKind, node: str | None, pool: str | None) -> dict[str, Any]:
    """The filters that the list of this kind takes."""
    given = {"node": node, "pool": pool}
    return {name: given[name] for name in kind.filters if given[name] is not None}


def of_pool(kind: ListKind, pool: str | None) -> ListKind:
    """Restricts the list to one pool. Raises InvalidInput if the list has no pool filter."""
    if pool is None or "pool" in kind.filters:
        return kind
    if kind.path != OFFERS:
        allowed = ", ".join(["offers", "decisions", *(kind.names[0] for kind in all_kinds() if "pool" in kind.filters)])
        raise InvalidInput(f"--pool: {kind.names[0]} cannot be filtered by pool; allowed: {allowed}", field="--pool")
    from urllib.parse import quote

    return replace(kind, path=f"/v1/pools/{quote(pool, safe='')}/offers")


def require_running_instance(kind: ListKind, reader: Reader, *, watch: bool = False) -> None:
    """Raises InvalidInput if only a running instance has this list, or if it cannot be watched."""
    if not kind.events and not reader.live:
        raise InvalidInput(f"{kind.names[0]} need a running instance: start one with `slackwater up`")
    if not kind.events and watch:
        raise InvalidInput(f"--watch: {kind.names[0]} cannot be watched; repeat the command instead", field="--watch")


def _show(reader: Reader, view: ListView) -> dict[str, str]:
    form = view.form
    answer = _fetch(reader, view)
    if form.is_object:
        _print_answer(answer, form)
        return {WHOLE: repr(answer)}
    items = _items(answer, reader, view)
    if not items:
        message(_nothing(view))
    _print_rows(items, view, headers=view.headers and bool(items))
    if view.headers and "sums" in answer and view.only is None and view.node is None and not form.names:
        print(sums_line(answer), flush=True)
    if view.kind.path == OFFERS and view.only is None and reader.live and (why := why_none(items, reader)):
        message(why)
    return {view.key(item): repr(item) for item in items}


def _fetch(reader: Reader, view: ListView) -> Any:
    answer = fetch(reader, view.kind, view.only, view.node, view.params)
    if "items" not in answer:
        return answer
    labels = view.kind.labels
    items = answer["items"]
    if view.labels is not None and labels is not None:
        items = [item for item in items if view.labels.matches(labels(item))]
    if view.namespace is not None:
        items = [item for item in items if item.get("namespace") == view.namespace]
    items = with_cells(items, view.cells, view.kind.columns)
    if not view.groups:
        items = sort_items(items, view.kind.columns, view.order)
    return {**answer, "items": items}


def _items(answer: Any, reader: Reader, view: ListView) -> Sequence[Item]:
    items = as_recorded(answer.get("items", [answer]), reader)
    if view.kind.columns is OFFER and view.form.is_wide:
        items = with_pools(items, reader, whole)
    return view.rows(items)


def _print_answer(answer: Any, form: OutputForm) -> None:
    if form.template is None:
        print_object(answer, form.form)
    else:
        print(form.template.text(answer), flush=True)


def _print_rows(items: Sequence[Item], view: ListView, *, headers: bool) -> None:
    if view.form.names:
        lines = [f"{noun_of(item, view.kind)}/{view.kind.key(item)}" for item in items]
    else:
        lines = table(items, view.kind.columns, wide=view.form.is_wide, headers=headers)
    for line in lines:
        print(line, flush=True)


def noun_of(item: Item, kind: ListKind) -> str:
    """The kind of an item as `get KIND/NAME` takes it: a resource names its own."""
    return str(item["kind"]).lower() if "apiVersion" in item else kind.noun


def _nothing(view: ListView) -> str:
    """The message for an empty list. Names the filter, because a typo in it must not look like an empty fleet."""
    asked = {"node": view.node, **{name: value for name, value in view.params.items() if name not in UNASKED}}
    asked["namespace"] = view.namespace
    filters = [f"{name} {value}" for name, value in {**asked, **view.cells}.items() if value]
    filters += ["these labels"] if view.labels is not None else []
    kinds = view.kind.names[0]
    if not filters:
        return _NOTHING.get(kinds, f"no {kinds} yet")
    columns = columns_among(view.labels, view.kind.columns) if view.labels is not None else []
    hint = "".join(f"; {column.partition('=')[0]} is a column, not a label: --where {column}" for column in columns)
    return f"no {kinds} with {', '.join(filters)}{hint}"


def _watch(reader: Reader, view: ListView, seen: dict[str, str]) -> None:
    """Print the rows that changed after each event; as json and yaml the whole object.

    The list is read again when the stream opens, because no event reports changes since the first answer.
    """
    if not reader.live:
        raise InvalidInput("--watch needs a running instance: start one with `slackwater up`")
    for _ in reader.follow(view.kind.events):
        answer = _fetch(reader, view)
        if view.form.is_object:
            if seen.get(WHOLE) != repr(answer):
                _print_answer(answer, view.form)
            seen[WHOLE] = repr(answer)
            continue
        items = _items(answer, reader, view)
        changed = [item for item in items if seen.get(view.key(item)) != repr(item)]
        seen.update((view.key(item), repr(item)) for item in items)
        _print_rows(changed, view, headers=False)
