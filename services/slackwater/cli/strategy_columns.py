"""ColocationStrategies and their dry runs, as `describe` and `apply --dry-run` print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from slackwater.cli.output import UNKNOWN, Item, TableColumn, cpu, memory, ratio, table
from slackwater.model.plurals import counted
from slackwater.resources.cells import value_text
from slackwater.resources.kinds.colocation_strategy import selected_nodes, state, status_of


def strategy_lines(strategy: Item) -> list[str]:
    """A ColocationStrategy with its effective values: its own ones and the inherited ones."""
    metadata, own = strategy["metadata"], strategy["spec"]
    lines = [
        f"Name:        {metadata['name']}",
        f"For:         {selected_nodes(strategy)}",
        f"Generation:  {metadata['generation']}, {state(strategy)}",
        f"Changed by:  {metadata.get('changedBy') or UNKNOWN}",
        f"Nodes:       {status_of(strategy, 'nodes') or 0} use it",
    ]
    lines += [
        f"Condition:   not {entry['type']} ({entry['reason']}): {entry['message']}"
        for entry in status_of(strategy, "conditions") or ()
        if entry["status"] == "False"
    ]
    lines += [f"  {entry['node']}: {entry['problem']}" for entry in status_of(strategy, "problems") or ()]
    lines.append("Fields:")
    for name, value in (status_of(strategy, "effective") or {}).items():
        above = "" if own.get(name) is not None else "(from above)"
        lines.append(f"  {name + ':':34}{value_text(value):<24}{above}".rstrip())
    return lines


def tried_lines(offers: Item) -> Iterator[str]:
    """The sums of the pools, then the nodes with the largest changes, each before and after."""
    pools, nodes = offers["pools"], offers["nodes"]
    tiers = ("batch", "mid") if any(_lends_to_mid(pool) for pool in pools) else ("batch",)
    changes = [column for tier in tiers for column in _change(tier)]
    if pools:
        heads = (
            TableColumn("POOL", lambda item: str(item["pool"])),
            TableColumn("NODES", lambda item: str(item["nodes"]), right=True),
            TableColumn("CHANGED", lambda item: str(item["changed"]), right=True),
        )
        yield from table(pools, (*heads, *changes), wide=False, headers=True)
    if nodes:
        node = (
            TableColumn("NODE", lambda item: str(item["node"])),
            TableColumn("POOL", lambda item: str(item["pool"])),
        )
        ends = (
            TableColumn("OF-CAPACITY", lambda item: ratio(item["changed"]), right=True),
            TableColumn("STRATEGIES", lambda item: " < ".join(item["strategies_after"])),
        )
        yield ""
        yield from table(nodes, (*node, *changes, *ends), wide=False, headers=True)
    if offers["left_out"]:
        yield f"and {counted(offers['left_out'], 'node')} with smaller changes or none"
    if offers["unknown"]:
        yield f"{counted(offers['unknown'], 'node has', 'nodes have')} no measurements yet"


def _lends_to_mid(pool: Item) -> bool:
    return any(any(pool[when]["mid"].values()) for when in ("before", "after"))


def _change(tier: str) -> Sequence[TableColumn]:
    """Columns before, after and difference, for both resources."""
    title = tier.upper()

    def columns(name: str, key: str, say: Callable[[int | None], str]) -> Iterator[TableColumn]:
        yield TableColumn(f"{title}-{name}", lambda item: say(item["before"][tier][key]), right=True)
        yield TableColumn("AFTER", lambda item: say(item["after"][tier][key]), right=True)
        yield TableColumn(
            "CHANGE", lambda item: _signed(item["after"][tier][key] - item["before"][tier][key], say), right=True
        )

    return (*columns("CPU", "cpu_milli", cpu), *columns("MEMORY", "memory_bytes", memory))


def _signed(difference: int, say: Callable[[int | None], str]) -> str:
    if difference == 0:
        return "0"
    return ("+" if difference > 0 else "-") + say(abs(difference))
