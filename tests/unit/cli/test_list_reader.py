"""Complete lists: all pages, and policies as the lists of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from slackwater.cli.get import noun_of
from slackwater.cli.list_kinds import POLICIES, kind_of
from slackwater.cli.list_reader import fetch, whole
from slackwater.cli.output import table
from slackwater.model.errors import NotFound
from slackwater.resources import catalog


@dataclass
class Pages:
    """Answers each list in pages of one item."""

    lists: Mapping[str, list[dict[str, Any]]]
    live: bool = True
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        self.asked.append(dict(params or {}))
        items, place = self.lists[path], int((params or {}).get("continue") or 0)
        more = place + 1 < len(items)
        return {"items": items[place : place + 1], "continue": str(place + 1) if more else None}


def _documents() -> Pages:
    return Pages(
        {
            kind.path: [
                {"apiVersion": "v1", "kind": kind.name, "metadata": {"name": name, "generation": 1}, "spec": {}}
            ]
            for kind, name in zip(catalog.KINDS, "abcdefghijklmnop", strict=False)
        }
    )


def test_policies_are_the_documents_of_every_kind() -> None:
    items = whole(_documents(), POLICIES)["items"]  # type: ignore[arg-type]  # it needs only `get`
    assert [item["kind"] for item in items] == [kind.name for kind in catalog.KINDS]
    kind = kind_of("pol")
    rows = table(items, kind.columns, wide=False, headers=True)
    assert rows[0].split() == ["KIND", "NAME", "GENERATION", "STATE", "CHANGED-BY"]
    assert len(rows) == len(catalog.KINDS) + 1
    assert [noun_of(item, kind) for item in items] == [kind.name.lower() for kind in catalog.KINDS]
    assert all(kind_of(noun_of(item, kind)).path for item in items), "`get KIND/NAME` takes each"


def test_a_list_is_read_to_its_end_with_its_filters() -> None:
    pages = Pages({"/v1/workloads": [{"name": name} for name in ("web", "db", "batch")]})
    answer = fetch(pages, kind_of("wl"), None, None, {"pool": "edge"})  # type: ignore[arg-type]  # it needs only `get`
    assert [item["name"] for item in answer["items"]] == ["web", "db", "batch"]
    assert [asked["pool"] for asked in pages.asked] == ["edge"] * 3
    assert fetch(pages, kind_of("wl"), "db", None, {})["name"] == "db"  # type: ignore[arg-type]  # as above
    with pytest.raises(NotFound, match="workload 'dbs' is not known; did you mean 'db'"):
        fetch(pages, kind_of("wl"), "dbs", None, {})  # type: ignore[arg-type]  # as above
