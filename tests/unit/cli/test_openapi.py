from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.cli.openapi import document


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    """Built once: all services and their schemas take two seconds."""
    return document()


def test_the_description_has_the_routes_of_every_service_and_health(description: dict[str, Any]) -> None:
    paths = description["paths"]
    assert {"/livez", "/readyz", "/metrics", "/version"} <= paths.keys()
    assert {"/v1/nodes", "/v1/why", "/v1/stream"} <= paths.keys()
    assert paths["/v1/nodeqos/default"].keys() == {"get", "put"}


def test_the_same_code_gives_the_same_description(description: dict[str, Any]) -> None:
    """The command builds it anew."""
    done = CliRunner().invoke(app, ["openapi"])
    assert json.loads(done.stdout) == description
