"""apply, diff, get, describe and delete of ColocationStrategy documents, against the routes of colocation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import strategy_scene
import yaml
from fastapi import APIRouter
from served_routes import Do, doing, served

from slackwater.cli.strategy_columns import tried_lines
from slackwater.runtime.resource_routes import resource_router

EXAMPLE = (Path(__file__).parents[3] / "examples" / "colocation_strategy.yaml").read_text()
GOLD = """
apiVersion: slackwater.io/v1alpha1
kind: ColocationStrategy
metadata: {name: gold}
spec: {cpuReclaimThresholdPercent: 30}
"""


@pytest.fixture
def url() -> Iterator[str]:
    async def routers() -> list[APIRouter]:
        replica = await strategy_scene.Replica().open()
        await replica.node("a")
        await replica.node("b", pool="gold")
        await replica.node("c", pool="gold", labels={"slackwater.io/cpu-reclaim-ratio": "much"})
        return [resource_router(replica.change)]

    with served(routers) as found:
        yield found


@pytest.fixture
def do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    return doing(url, tmp_path, monkeypatch)


TOGETHER = """
{api}metadata: {{name: default}}
spec: {{enable: true, degradeTimeMinutes: {minutes}, cpuReclaimThresholdPercent: 50}}
---
{api}metadata: {{name: gold}}
spec: {{degradeFromSeconds: 600}}
"""
API = "apiVersion: slackwater.io/v1alpha1\nkind: ColocationStrategy\n"


def test_of_strategies_that_belong_together_all_are_stored_or_none(do: Do) -> None:
    """600 s are below the 15 minutes that are stored, and not below the 5 that the same file sets."""
    before = do("get", "colocationstrategies").stdout
    for flags in (("--dry-run",), ()):
        refused = do("apply", TOGETHER.format(api=API, minutes=5), *flags)
        assert refused.exit_code == 2
        assert "degradeFromSeconds: 600 is not allowed; it must be below degradeTimeMinutes (300 s)" in refused.stderr
        assert "gold" in refused.stderr
    assert do("get", "colocationstrategies").stdout == before
    longer = TOGETHER.format(api=API, minutes=20).replace("600", "1000")
    assert do("diff", longer).exit_code == 3
    assert do("apply", longer).stdout.splitlines() == [
        "colocationstrategy/default configured",
        "colocationstrategy/gold created",
    ], "1000 s are allowed by the 20 minutes of the same file"
    assert do("apply", TOGETHER.format(api=API, minutes=20) + "---" + GOLD).exit_code == 2, "gold twice"


def test_a_dry_run_of_several_strategies_shows_their_combined_offers(do: Do) -> None:
    wanted = TOGETHER.format(api=API, minutes=20)
    answer = json.loads(do("apply", wanted, "--dry-run", "-o", "json").stdout)
    tried = {node["node"]: node["strategies_after"] for node in answer["offers"]["nodes"]}
    assert tried["b"] == ["cluster@2", "pool/gold@1"]
    shown = do("apply", wanted, "--dry-run").stdout
    assert shown.splitlines()[:2] == [
        "colocationstrategy/default would be configured",
        "colocationstrategy/gold would be created",
    ]
    assert shown.count("OF-CAPACITY") == 1, "one table, with all of them"
    assert do("apply", wanted).exit_code == 0
    assert "unchanged" in do("apply", wanted).stdout


def test_a_strategy_is_tried_made_seen_and_removed(do: Do) -> None:
    assert do("apply", GOLD, "--dry-run").stdout.splitlines()[0] == "colocationstrategy/gold would be created"
    assert do("diff", GOLD).exit_code == 3
    assert do("apply", GOLD).stdout == "colocationstrategy/gold created\n"
    assert do("apply", GOLD).stdout == "colocationstrategy/gold unchanged\n"
    assert do("diff", GOLD).exit_code == 0
    changed = GOLD.replace("30", "31")
    assert do("diff", changed).stdout == "colocationstrategy/gold spec.cpuReclaimThresholdPercent: 30 -> 31\n"
    assert do("apply", changed).stdout == "colocationstrategy/gold configured\n"
    lines = do("get", "colocationstrategies").stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["default", "*", "yes", "60", "65"],
        ["gold", "pool=gold", "yes", "31", "65"],
    ]
    assert lines[1].endswith("in force, degraded by invalid node overrides")
    assert "PRECEDENCE" in do("get", "cs", "-o", "wide").stdout
    gone = do("delete", GOLD, "--dry-run").stdout.splitlines()
    assert gone[0] == "colocationstrategy/gold would be deleted"
    assert gone[1].startswith("POOL")
    assert do("delete", GOLD).stdout == "colocationstrategy/gold deleted\n"
    assert do("delete", GOLD).stderr == "colocationstrategy/gold does not exist\n"


def test_a_trial_shows_every_node_before_and_after_with_the_sums_of_pools(do: Do) -> None:
    done = do("apply", GOLD, "--dry-run=server")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == [
        "POOL", "NODES", "CHANGED", "BATCH-CPU", "AFTER", "CHANGE", "BATCH-MEMORY", "AFTER", "CHANGE",
    ]  # fmt: skip
    assert lines[2][:6] == ["default", "1", "0", "2.5", "2.5", "0"]
    assert lines[3][:6] == ["gold", "2", "2", "5", "0.2", "-4.8"]
    assert lines[4] == []
    assert [line[:5] for line in lines[6:9]] == [
        ["b", "gold", "2.5", "0.1", "-2.4"], ["c", "gold", "2.5", "0.1", "-2.4"], ["a", "default", "2.5", "2.5", "0"],
    ]  # fmt: skip
    assert done.stdout.splitlines()[6].endswith("30.0%  cluster@1 < pool/gold@1")
    few = do("apply", GOLD, "--dry-run", "--nodes", "1").stdout.splitlines()
    assert few[-1] == "and 2 nodes with smaller changes or none"


def test_what_the_server_answered_can_be_had_whole(do: Do) -> None:
    tried = json.loads(do("apply", GOLD, "--dry-run=server", "-o", "json").stdout)
    assert [node["node"] for node in tried["offers"]["nodes"]] == ["b", "c", "a"]
    both = yaml.safe_load(do("apply", GOLD + "---" + GOLD.replace("gold", "silver"), "-o", "yaml").stdout)
    assert [one["metadata"]["generation"] for one in both["items"]] == [1, 1]


def test_columns_of_mid_are_there_where_mid_is_offered_anything() -> None:
    offers = {"batch": {"cpu_milli": 1000, "memory_bytes": 2**30}, "mid": {"cpu_milli": 500, "memory_bytes": 0}}
    pool = {"pool": "gold", "nodes": 1, "changed": 0, "before": offers, "after": offers}
    lines = list(tried_lines({"pools": [pool], "nodes": [], "left_out": 0, "unknown": 3}))
    assert "MID-CPU" in lines[0]
    assert lines[-1] == "3 nodes have no measurements yet"


def test_a_description_shows_effective_values_and_invalid_overrides(do: Do) -> None:
    do("apply", GOLD)
    lines = do("describe", "colocationstrategy", "gold").stdout.splitlines()
    assert "For:         pool=gold" in lines
    assert "  cpuReclaimThresholdPercent:       30" in lines
    assert "  memoryReclaimThresholdPercent:    65                      (from above)" in lines
    cluster = do("describe", "cs/default").stdout
    assert "Condition:   not NodesFollow (InvalidNodeOverrides): 1 of 3 nodes" in cluster
    assert "  c: label slackwater.io/cpu-reclaim-ratio: 'much' is no ratio" in cluster


def test_the_example_can_be_applied_and_what_get_prints_too(do: Do) -> None:
    assert "created" in do("apply", EXAMPLE).stdout
    name = next(body["metadata"]["name"] for body in yaml.safe_load_all(EXAMPLE))
    shown = do("get", f"colocationstrategy/{name}", "-o", "yaml").stdout
    assert do("apply", shown).stdout == f"colocationstrategy/{name} unchanged\n"


@pytest.mark.parametrize(
    ("verb", "text", "said"),
    [
        ("apply", GOLD.replace("30", "-1"), "cpuReclaimThresholdPercent: -1 is not allowed; a whole number from 0"),
        ("apply", GOLD.replace("cpuReclaim", "cpuReclam"), "there is no such field"),
        ("delete", GOLD.replace("gold", "default"), "every node follows it"),
    ],
)
def test_a_refusal_is_one_line_that_says_why(do: Do, verb: str, text: str, said: str) -> None:
    done = do(verb, text)
    assert done.exit_code != 0
    assert said in done.stderr
    assert done.stdout == ""


def test_only_the_server_can_try(do: Do) -> None:
    done = do("apply", GOLD, "--dry-run=client")
    assert done.exit_code == 2
    assert "allowed: server" in done.output
    assert do("delete", GOLD, "--dry-run=server").exit_code == 0
