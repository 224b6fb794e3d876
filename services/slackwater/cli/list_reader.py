"""Lists of the API, complete: all pages, all kinds of policies, and one item by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli.list_kinds import POLICIES, ListKind
from slackwater.cli.output import Item
from slackwater.cli.quarantine_columns import QUARANTINE, set_aside
from slackwater.model.errors import NotFound
from slackwater.resources import catalog

if TYPE_CHECKING:
    from slackwater.cli.client import Reader


def fetch(reader: Reader, kind: ListKind, only: str | None, node: str | None, params: Mapping[str, Any]) -> Any:
    """The answer for a kind, restricted to a node and to the item called `only`. Raises NotFound that names close
    matches.
    """
    if only and kind.item_path:
        from urllib.parse import quote

        return reader.get(kind.item_path.format(quote(only, safe="")))
    answer = reader.get(kind.path, params) if "limit" in params else whole(reader, kind.path, params)
    items = [item for item in answer["items"] if node in (None, item.get("node", item.get("name")))]
    if only:
        return _only(items, kind, only)
    return {**answer, "items": items}


def whole(reader: Reader, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All pages of a list, combined."""
    if path == QUARANTINE:
        return {"items": set_aside(reader)}
    if path == POLICIES:
        return {"items": [item for kind in catalog.KINDS for item in whole(reader, kind.path)["items"]]}
    items: list[Item] = []
    token: str | None = None
    while True:
        page = reader.get(path, {**(params or {}), "continue": token})
        items += page["items"]
        token = page.get("continue")
        if token is None:
            return {**page, "items": items}


def _only(items: Sequence[Item], kind: ListKind, only: str) -> Any:
    items_found = [item for item in items if kind.key(item) == only]
    if items_found:
        return items_found[0] if len(items_found) == 1 else {"items": items_found}
    close = difflib.get_close_matches(only, [kind.key(item) for item in items], n=3, cutoff=0.5)
    hint = "; did you mean " + " or ".join(repr(name) for name in close) + "?" if close else ""
    raise NotFound(f"{kind.noun} {only!r} is not known{hint}")


def as_recorded(items: Sequence[Item], reader: Reader) -> Sequence[Item]:
    """Marks the liveness of nodes as past if the instance is stopped, because its data are not current."""
    if reader.live:
        return items
    return [{**item, "liveness": f"was {item['liveness']}"} if item.get("liveness") else item for item in items]
