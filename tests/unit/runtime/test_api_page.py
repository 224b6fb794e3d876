"""GET /docs: the API on one page that loads nothing and runs nothing."""

from __future__ import annotations

import re

import pytest

from slackwater.cli.openapi import document
from slackwater.runtime.api_page import POLICY, api_page


@pytest.fixture(scope="module")
def page() -> str:
    return api_page(document())


def test_every_operation_and_schema_is_on_it_and_every_link_leads_somewhere(page: str) -> None:
    described = document()
    ids = set(re.findall(r' id="([^"]+)"', page))
    operations = {each["operationId"] for methods in described["paths"].values() for each in methods.values()}
    assert operations <= ids
    assert {f"schema-{name}" for name in described["components"]["schemas"]} <= ids
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    assert set(re.findall(r'href="(/[^"]+)"', page)) == {"/v1/openapi.json", "/v1/problems"}


def test_it_loads_and_runs_nothing(page: str) -> None:
    assert not re.search(r"<script|<link|<img|https?://(?!127\.0\.0\.1)[^ <]*\.(js|css)", page)
    assert POLICY.startswith("default-src 'none'")


def test_texts_are_escaped() -> None:
    schema = {"description": "<b>&", "properties": {"<i>": {"type": "string", "description": "<script>"}}}
    operation = {"operationId": "list_x", "summary": "<img>", "responses": {"200": {"description": "ok"}}}
    text = api_page(
        {
            "info": {"title": "<t>", "version": "1"},
            "paths": {"/x": {"get": operation}},
            "components": {"schemas": {"X": schema}},
        }
    )
    assert not re.search(r"<(i|script|img|t)>", text)
    assert "&lt;b&gt;&amp;" in text
