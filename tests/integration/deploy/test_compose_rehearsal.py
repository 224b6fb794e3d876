"""`docker compose up`, rehearsed: the file's own commands, environments, secrets, mounts, users and health checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from compose import Project
from containers import until, why_not_here
from images import images

pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))]
SERVICES = ("ingestion", "prediction", "colocation", "ensurance", "console")
HURRY = {
    "ingestion": {"SLACKWATER_INGESTION_WINDOW_SECONDS": "5", "SLACKWATER_INGESTION_LATENESS_SECONDS": "1"},
    "fleet": {"SLACKWATER_AGENT_REPORT_SECONDS": "1"},
}
"""All that is otherwise than in the file: a window of a minute is too long to wait for."""
VARIABLES = {"SLACKWATER_FLEET": "3"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("compose")
    made = Project(folder, images(folder), VARIABLES, besides=HURRY)
    with made.network:
        made.up()
        yield made


@pytest.fixture(scope="module")
def token(project: Project) -> str:
    """As a person finds it: in what `docker compose up` prints."""
    found = re.search(r"open http://127\.0\.0\.1:8460/\?token=(\S+)", project.running["secrets"].output)
    assert found is not None, project.running["secrets"]
    return found[1]


def items(project: Project, token: str, path: str) -> list[dict[str, Any]]:
    status, body = project.network.get(project.running["console"], 8460, path, token)
    found: list[dict[str, Any]] = json.loads(body)["items"] if status == 200 else []
    return found


def test_everything_becomes_healthy_and_a_node_has_an_offer(project: Project, token: str) -> None:
    for name in project.services:
        if project.health(name) is not None:
            until(lambda: project.healthy(name), f"{project.running[name]} is healthy")
    until(lambda: len(items(project, token, "/v1/nodes")) == 3, "three nodes are known")
    until(lambda: items(project, token, "/v1/nodes/sim-01/offers"), "an offer of sim-01")
