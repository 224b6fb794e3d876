from __future__ import annotations

import json

from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.cli.openapi import document


def test_the_description_has_the_routes_of_every_service_and_health() -> None:
    paths = document()["paths"]
    assert {"/livez", "/readyz", "/metrics", "/version"} <= paths.keys()
    assert {"/v1/nodes", "/v1/why", "/v1/stream"} <= paths.keys()
    assert paths["/v1/nodeqos/default"].keys() == {"get", "put"}


def test_the_same_code_gives_the_same_description() -> None:
    assert document() == document()
    done = CliRunner().invoke(app, ["openapi"])
    assert json.loads(done.stdout) == document()
