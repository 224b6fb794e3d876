"""The verbs of documents for NodeQOS, PodQOS, AvoidanceAction and Autonomy, against the routes of ensurance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fastapi import APIRouter
from guard_documents import DocumentScene
from served_routes import Do, doing, served

from slackwater.ensurance.edge.pools import pools_router
from slackwater.ensurance.usecases.pool_autonomy import PoolAutonomy
from slackwater.runtime.resource_routes import resource_router

HOW_TO = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "allow-evictions.md"
EXAMPLE = HOW_TO.read_text().split("```yaml\n")[1].split("```")[0]
"""The four documents of the page, as they stand there."""
TITLES = ["avoidanceaction/evict", "podqos/default", "autonomy/gold", "nodeqos/gold-memory"]
by_title = pytest.mark.parametrize("title", TITLES)


@pytest.fixture
def url() -> Iterator[str]:
    async def routers() -> list[APIRouter]:
        scene = DocumentScene()
        await scene.open()
        kinds = [resource_router(change) for change in scene.changes.values()]
        look = PoolAutonomy(scene.cache, scene.clock, scene.guard._meter)
        return [pools_router(look), *kinds]

    with served(routers) as found:
        yield found


@pytest.fixture
def do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    return doing(url, tmp_path, monkeypatch)


def lines(*ends: str) -> str:
    return "".join(f"{title} {end}\n" for title, end in zip(TITLES, ends * 4, strict=False))


def test_the_example_of_the_page_is_tried_made_seen_and_removed(do: Do) -> None:
    assert do("apply", EXAMPLE, "--dry-run").stdout == lines("would be created")
    assert do("diff", EXAMPLE).exit_code == 3
    assert do("apply", EXAMPLE).stdout == lines("created")
    assert do("apply", EXAMPLE).stdout == lines("unchanged")
    assert do("diff", EXAMPLE).exit_code == 0
    changed = EXAMPLE.replace("92%", "90.5%").replace("mode: evict", "mode: observe")
    assert do("diff", changed).stdout.splitlines() == [
        'autonomy/gold spec.mode: "evict" -> "observe"',
        'nodeqos/gold-memory spec.rules.0.metricRule.value: "92%" -> "90.5%"',
    ]
    assert do("delete", EXAMPLE).stdout == lines("deleted")


def test_one_wrong_document_and_none_is_stored(do: Do) -> None:
    done = do("apply", EXAMPLE.replace("actionName: evict", "actionName: Evict Them"))
    assert done.exit_code == 2
    assert "document 4: " in done.stderr
    assert "spec.rules.0.actionName" in done.stderr
    assert do("get", "podqos").stdout == ""


@by_title
def test_each_kind_is_described_with_all_that_it_says(do: Do, title: str) -> None:
    do("apply", EXAMPLE)
    shown = do("describe", title).stdout.splitlines()
    assert shown[0] == f"Name:        {title.partition('/')[2]}"
    assert shown[2] == "Generation:  1"
    spec = next(one["spec"] for one in yaml.safe_load_all(EXAMPLE) if one["kind"].lower() == title.partition("/")[0])
    text = "\n".join(shown)
    assert all(f"{name}:" in text for name in spec)
    assert json.loads(do("describe", title, "-o", "json").stdout)["kind"].lower() == title.partition("/")[0]


@by_title
def test_what_get_prints_can_be_applied(do: Do, title: str) -> None:
    do("apply", EXAMPLE)
    assert do("apply", do("get", title, "-o", "yaml").stdout).stdout == f"{title} unchanged\n"


def test_get_shows_what_matters_of_each_kind(do: Do) -> None:
    do("apply", EXAMPLE)
    rows = {noun: do("get", noun).stdout.splitlines()[-1].split() for noun in ("nodeqos", "podqos", "aa", "autonomies")}
    assert rows["nodeqos"][:2] == ["gold-memory", "disk=ssd"]
    assert "node_memory_usage_ratio>92%:evict" in rows["nodeqos"]
    assert rows["podqos"][-2:] == ["throttle,evict", "1"]
    assert rows["aa"][:5] == ["evict", "evict", "in", "10", "s"]
    assert rows["autonomies"][:4] == ["gold", "gold", "evict", "20"]


def test_get_pools_shows_the_autonomy_of_each_pool(do: Do) -> None:
    do("apply", EXAMPLE)
    table = [line.split() for line in do("get", "pools").stdout.splitlines()]
    assert table[0] == ["NAME", "MODE", "GRANTED", "EVICTED-1H", "UNRELIEVED", "UNTIL", "BECAUSE"]
    assert [row[:6] for row in table[1:]] == [
        ["default", "throttle", "throttle", "0", "of", "50"],
        ["gold", "evict", "evict", "0", "of", "20"],
    ]
