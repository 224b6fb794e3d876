"""The page of strategies: what is in force, what each says, and where one node has each value from."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from console_app import console_app
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.domain.strategies import StrategyView, field_lines, in_order, lines_of, node_strategy
from slackwater.console.edge.stream import Streams
from slackwater.offers.strategy_layers import NodeOverrides, PoolStrategy, layers_of, merged
from slackwater.resources.selectors import Selector

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


def view(document: str, generation: int = 1, **changes: Any) -> StrategyView:
    one = StrategyView(document, generation, generation, "", 0, {}, {}, "", "", AT, False, AT)
    return replace(one, **changes)


CLUSTER = view("default", 3, fields={"a": 1}, effective={"a": 1, "b": 2, "c": 3})
WEB = view("web", 2, fields={"b": 20, "a": 10}, effective={"a": 10, "b": 20, "c": 3}, precedence=5)


def test_documents_stand_in_the_order_in_which_they_are_asked() -> None:
    names = [one.document for one in in_order([view("z"), WEB, view("gone", gone=True), view("a"), CLUSTER])]
    assert names == ["default", "web", "a", "z"]


def test_nodes_are_counted_by_the_generation_that_they_follow() -> None:
    [cluster, web] = lines_of([CLUSTER, WEB], {"cluster@3": 7, "cluster@2": 2, "pool/web@1": 4, "node-label": 1})
    assert (cluster.following, cluster.behind, web.following, web.behind) == (7, 2, 0, 4)


def test_fields_that_are_set_come_first() -> None:
    found = field_lines([CLUSTER, WEB])
    assert [(line.name, line.said, line.first) for line in found] == [
        ("a", (1, 10), 1),
        ("b", (None, 20), 2),
        ("c", (None, None), 3),
    ]


@pytest.mark.parametrize(
    ("observed", "problem", "state"),
    [(3, "", "in force"), (2, "p", "degraded: generation 2"), (0, "p", "degraded: in part")],
)
def test_a_state_says_whether_the_stored_generation_counts(observed: int, problem: str, state: str) -> None:
    assert view("x", 3, observed_generation=observed, problem=problem).state == state


def test_a_nodes_value_names_its_layer_and_what_it_overrides() -> None:
    annotations = {"slackwater.io/colocation-strategy": '{"a": 100, "durations": ["5m", "1h"], "n": null}'}
    labels = {"slackwater.io/cpu-reclaim-ratio": "0.29", "slackwater.io/memory-reclaim-ratio": "much"}
    sources = ("cluster@3", "pool/web@1", "node-annotation", "node-label")
    found = node_strategy([CLUSTER, WEB], sources, labels, annotations, "why not")
    said = {
        one.name: (
            (one.in_force.value, one.in_force.layer),
            [(other.value, other.layer) for other in one.overridden],
        )
        for one in found.fields
    }
    assert said == {
        "a": ((100, "node-annotation"), [(10, "pool/web@1"), (1, "cluster@3")]),
        "b": ((20, "pool/web@1"), [(2, "default")]),
        "cpuReclaimThresholdPercent": ((29, "node-label"), []),
        "durations": ((["5m", "1h"], "node-annotation"), []),
        "c": ((3, "default"), []),
    }
    assert (found.older, found.problem) == (("pool/web@1",), "why not")


def test_words_that_no_layer_in_force_is_made_of_say_nothing() -> None:
    annotations = {"slackwater.io/colocation-strategy": '{"a": 100}'}
    assert node_strategy([CLUSTER], ("cluster@3",), {}, annotations).fields[0].in_force.layer == "cluster@3"


def test_an_annotation_that_is_no_json_breaks_no_page() -> None:
    found = node_strategy([CLUSTER], ("cluster@3", "node-annotation"), {}, {"slackwater.io/colocation-strategy": "{"})
    assert {one.in_force.layer for one in found.fields} == {"cluster@3", "default"}


percents = st.integers(0, 100)
specs = st.fixed_dictionaries(
    {}, optional={"cpuReclaimThresholdPercent": percents, "memoryReclaimThresholdPercent": percents}
)
prefixes = st.sampled_from(["slackwater.io", "node.koordinator.sh"])
ratios = st.dictionaries(
    st.tuples(prefixes, st.sampled_from(["cpu-reclaim-ratio", "memory-reclaim-ratio"])).map("/".join),
    percents.map(lambda percent: str(percent / 100)),
)
annotated = st.dictionaries(
    prefixes.map(lambda prefix: f"{prefix}/colocation-strategy"),
    specs.map(lambda spec: str(spec).replace("'", '"')),
)


@given(specs, specs, ratios, annotated)
def test_the_page_finds_what_colocation_follows(
    cluster: dict[str, int], pool: dict[str, int], labels: dict[str, str], annotations: dict[str, str]
) -> None:
    """The one place where the page repeats a rule of colocation: precedence."""
    layers = layers_of(cluster, [PoolStrategy("web", Selector(), pool)], NodeOverrides(labels, annotations))
    sources = tuple(dict.fromkeys(layer.level for layer in layers))
    documents = [view("default", fields=cluster, effective=cluster), view("web", fields=pool)]
    found = node_strategy(documents, sources, labels, annotations)
    assert {one.name: one.in_force.value for one in found.fields} == merged(layers)


@pytest.fixture
def pages(told_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return told_client


async def page(pages: httpx2.AsyncClient, path: str) -> str:
    answer = await pages.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


async def test_the_page_lists_what_is_in_force_and_says_what_is_not(pages: httpx2.AsyncClient) -> None:
    text = await page(pages, "/strategies")
    assert "default every node in force 3 \N{EN DASH} 4 " in text
    assert "edge pool edge in force 2 10 4 " in text
    assert "night role=night; zone In harbour, pier degraded: generation 4 4 of 5" in text
    kept = "night: generation 5 cannot be used, generation 4 is still in effect: spec.cpuReclaimThresholdPercent"
    assert kept in text
    assert "cpuReclaimThresholdPercent 80 70 95 80" in text
    assert "by mara" in text


async def test_a_node_is_looked_at_and_its_page_leads_here(pages: httpx2.AsyncClient) -> None:
    text = await page(pages, "/strategies?node=edge-9")
    assert "cluster@3 < pool/edge@2 < node-annotation" in text
    assert "cpuReclaimThresholdPercent 55 node-annotation 70 (pool/edge@2), 80 (cluster@3)" in text.replace("  ", " ")
    assert "memoryReclaimThresholdPercent 60 pool/edge@2 65 (default)" in text
    assert 'href="/strategies?node=edge-9"' in (await pages.get("/nodes/edge-9")).text
    assert "There is no node lost." in await page(pages, "/strategies?node=lost")


async def test_without_strategies_the_page_shows_a_note(
    model: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    app = console_app(model, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert "Colocation has not reported a strategy yet." in await page(client, "/strategies")


async def test_an_older_word_about_a_document_changes_nothing(model: MemoryReadModel) -> None:
    await model.save_strategies([CLUSTER, replace(CLUSTER, generation=1, told_at=AT - timedelta(seconds=1))])
    assert [one.generation for one in await model.strategies()] == [3]
