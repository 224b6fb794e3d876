"""A crawler follows every link of every page, and the navigation is short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from served import Served, served
from tests.support.clock import EPOCH
from tests.support.crawl import Opened, crawl, shape_of

from slackwater.charts.level_chart import gap_of
from slackwater.console.edge.templates_environment import place_href

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def console() -> Iterator[Served]:
    with served() as running:
        yield running


def links_of(page: str, base: str) -> set[str]:
    found = {unescape(href) for href in re.findall(r'<a [^>]*?href="([^"#]+)', page)}
    return {urljoin(base, href) for href in found if not urlsplit(href).scheme}


def test_no_link_of_any_page_is_dead(console: Served) -> None:
    with httpx2.Client(headers=HTML, trust_env=False, timeout=20) as client:

        def open_page(url: str) -> Opened:
            answer = client.get(url)
            is_page = "text/html" in answer.headers["content-type"]
            return Opened(answer.status_code, links_of(answer.text, url) if is_page else ())

        opened = crawl((f"{console.url}/", f"{console.url}/demo"), open_page)
    assert [page for pages in opened.values() for page in pages if page[1] != 200] == []
    assert len(opened) > 150


def test_addresses_of_one_shape_are_those_that_differ_by_a_name_or_a_moment() -> None:
    for first, second in (
        ("/nodes/a?span=1h&at=-2m", "/nodes/b%2Fc?at=yesterday&span=1h"),
        ("/decisions?cursor=x&node=a", "/decisions?node=b&cursor=y"),
        ("/v1/decisions/1:2", "/v1/decisions/3"),
        ("/pods?node=a&sort=cpu", "/pods?node=a&sort=-cpu"),
    ):
        assert shape_of(first) == shape_of(second)
    for first, second in (
        ("/nodes/a?span=1h", "/nodes/a?span=6h"),
        ("/pods?sort=cpu", "/pods?sort=-cpu"),
        ("/resources/podqos", "/resources/nodeqos"),
        ("/resources/podqos/a", "/resources/podqos"),
        ("/nodes", "/nodes/a"),
    ):
        assert shape_of(first) != shape_of(second)


def test_the_navigation_has_eight_items_and_every_page_is_reached_from_it(console: Served) -> None:
    page = httpx2.get(console.url, headers=HTML, trust_env=False).text
    [main] = re.findall(r'<nav aria-label="Main">(.*?)</nav>', page)
    assert len(re.findall("<a ", main)) == 8
    assert 'href="/" aria-current="page"' in main
    pods = httpx2.get(f"{console.url}/pods", headers=HTML, trust_env=False).text
    assert '<a href="/workloads" aria-current="true">' in pods
    assert '<a href="/pods" aria-current="page">' in pods


@pytest.mark.parametrize("path", ["/nothing", "/nodes/none", "/resources/none", "/decisions/none"])
def test_an_unknown_page_is_a_page_for_a_browser_and_a_problem_for_a_program(console: Served, path: str) -> None:
    page = httpx2.get(f"{console.url}{path}", headers=HTML, trust_env=False)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert 'href="/"' in page.text
    if path == "/nothing":
        problem = httpx2.get(f"{console.url}{path}", trust_env=False)
        assert problem.headers["content-type"] == "application/problem+json"
        api = httpx2.get(f"{console.url}/v1/nothing", headers=HTML, trust_env=False)
        assert api.headers["content-type"] == "application/problem+json"


def test_a_record_about_a_tree_of_quotas_leads_to_the_quotas() -> None:
    assert place_href("quota:default") == "/quotas"
    assert place_href("quota:gpu tree") == "/quotas?tree=gpu+tree"
    assert place_href("edge-7") == "/nodes/edge-7"


def test_a_chart_joins_no_samples_across_a_gap() -> None:
    times = [EPOCH + timedelta(seconds=second) for second in (0, 5, 10, 15, 45, 50)]
    assert gap_of(times) == 15
    assert gap_of([EPOCH + timedelta(minutes=minute) for minute in range(5)]) == 45
    assert gap_of([EPOCH + timedelta(seconds=second) for second in range(5)]) == 12
    assert gap_of([]) == 45
