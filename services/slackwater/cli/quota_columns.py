"""ElasticQuotas and QuotaProfiles as `get` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slackwater.cli.output import UNKNOWN, Item, TableColumn, table
from slackwater.fairshare.tree import is_cpu
from slackwater.model.quantities import format_cpu, format_memory


def minimum(quota: Item) -> str:
    """The min as written."""
    return _amounts(quota["spec"].get("min") or {})


def maximum(quota: Item) -> str:
    """The max as written."""
    return _amounts(quota["spec"].get("max") or {})


def pool(profile: Item) -> str:
    """The pool whose nodes the tree shares."""
    return str(profile["spec"].get("nodePool") or profile["metadata"]["name"])


def tree(profile: Item) -> str:
    """The tree that quotas name."""
    return str(profile["spec"].get("tree") or profile["metadata"]["name"])


def _amounts(amounts: Mapping[str, Any]) -> str:
    return ",".join(f"{resource}={amount}" for resource, amount in amounts.items()) or UNKNOWN


def tried_lines(runtimes: Item) -> Iterator[str]:
    """The quotas whose runtime would change, and what they would owe."""
    if not runtimes["quotas"]:
        yield "no runtime would change, with what is requested now"
        return
    columns = (
        TableColumn("QUOTA", lambda item: str(item["quota"])),
        TableColumn("RESOURCE", lambda item: str(item["resource"])),
        TableColumn("BEFORE", lambda item: amount_text(item["resource"], item["before"]), right=True),
        TableColumn("AFTER", lambda item: amount_text(item["resource"], item["after"]), right=True),
        TableColumn("USED", lambda item: amount_text(item["resource"], item["used"]), right=True),
        TableColumn("OWED", lambda item: amount_text(item["resource"], item["owed"]), right=True),
    )
    yield from table(runtimes["quotas"], columns, wide=False, headers=True)


def amount_text(resource: str, amount: int | None) -> str:
    """An amount of the ledger as people write it: cores, binary units of memory, pieces."""
    if amount is None:
        return UNKNOWN
    if is_cpu(resource):
        return format_cpu(amount)
    return format_memory(amount) if resource.endswith("memory") else str(amount)
