"""`docker compose up`, rehearsed: the file's own commands, environments, secrets, mounts, users and health checks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compose import Project
from containers import until, why_not_here
from images import ROOT, images

from slackwater.runtime.service_list import service_names

pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))]
SERVICES = service_names()
HURRY = {
    "ingestion": {"SLACKWATER_INGESTION_WINDOW_SECONDS": "5", "SLACKWATER_INGESTION_LATENESS_SECONDS": "1"},
    "fleet": {"SLACKWATER_AGENT_REPORT_SECONDS": "1"},
}
"""All that is otherwise than in the file: a window of a minute is too long to wait for."""
VARIABLES = {"SLACKWATER_FLEET": "3"}
DAC_OVERRIDE, KILL, SYS_PTRACE = 1, 5, 19
"""Numbers of the capabilities, see linux/capability.h."""
UNAUTHENTICATED_CLIENTS = Path(__file__).parent / "unauthenticated_clients.py"
CALLER = Path(__file__).parent / "caller.py"
PATHS = f"{ROOT / 'services'}:{ROOT / 'libs'}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("compose")
    made = Project(folder, images(folder), VARIABLES, ["backup", "linux"], HURRY)
    with made:
        made.up()
        yield made


@pytest.fixture(scope="module")
def token(project: Project) -> str:
    """As a person finds it: in what `docker compose up` prints."""
    found = re.search(r"open http://127\.0\.0\.1:8460/\?token=(\S+)", project.running["secrets"].output)
    assert found is not None, project.running["secrets"]
    return found[1]


def items(project: Project, token: str, path: str) -> list[dict[str, Any]]:
    status, body = project.get("console", path, token)
    found: list[dict[str, Any]] = json.loads(body)["items"] if status == 200 else []
    return found


def test_everything_becomes_healthy_and_a_node_has_an_offer(project: Project, token: str) -> None:
    for name in project.services:
        if project.health(name) is not None:
            until(partial(project.healthy, name), f"{project.running[name]} is healthy")
    until(lambda: len(items(project, token, "/v1/nodes")) == 3, "three nodes are known")
    until(lambda: items(project, token, "/v1/nodes/sim-01/offers"), "an offer of sim-01")
    assert not re.search("Violation|Authorization Error", project.running["nats"].complaints), project.running["nats"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_shows_nothing_without_authentication(project: Project, token: str, name: str) -> None:
    viewer = (project.volume("secrets") / "tokens" / "viewer").read_text().strip()
    for path in ("/", "/metrics", "/version", "/v1/nodes", "/v1/stream", "/v1/openapi.json"):
        assert project.get(name, path)[0] == 401, path
        assert project.get(name, path, f"{token}x")[0] == 401, path
    assert project.get(name, "/livez")[0] == 200
    assert project.get(name, "/metrics", viewer)[0] == 200


def test_each_container_runs_as_the_declared_user_without_further_rights(project: Project) -> None:
    for name in (*SERVICES, "fleet"):
        running = project.running[name]
        status = running.execute(["cat", "/proc/self/status"]).stdout
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(found["Uid"].split()) == {"65532"}
        assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == 0
        assert found["NoNewPrivs"] == "1"
        assert running.execute(["touch", "/opt/new"]).returncode != 0
        assert running.execute(["touch", "/run/secrets/slackwater/new"]).returncode != 0
        secrets = set(running.execute(["ls", "/run/secrets/slackwater"]).stdout.split())
        more = {"fleet": set(), "ingestion": {"dsn", "tokens", "access.seed"}}.get(name, {"dsn", "tokens"})
        assert secrets == {"nats.creds", "ca.crt"} | more
        assert running.execute(["touch", "/var/lib/slackwater/new", "/tmp/new"]).returncode == 0


def test_the_broker_and_the_database_refuse_unauthenticated_clients_and_confine_each_user(project: Project) -> None:
    nats, postgres = project.running["nats"].address, project.running["postgres"].address
    done = project.network.beside(
        [sys.executable, str(UNAUTHENTICATED_CLIENTS), str(project.volume("secrets")), nats, postgres], PYTHONPATH=PATHS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout)
    assert {what for what, came in outcome.items() if came != "refused"} == {
        "broker: console over TLS",
        "broker: console hears its own inbox",
        "database: console as itself",
    }
    assert len(outcome) > 10


def test_the_command_line_and_grpc_answer_with_a_token_and_not_without(project: Project, token: str) -> None:
    console = project.running["console"].address
    command = [sys.executable, "-m", "slackwater.cli"]
    shown = ["get", "nodes", "-o", "json", "--server", f"http://{console}:8460"]
    done = project.network.beside([*command, "--token", token, *shown], PYTHONPATH=PATHS)
    assert "sim-01" in done.stdout, done.stderr
    assert project.network.beside([*command, *shown], PYTHONPATH=PATHS).returncode != 0
    done = project.network.beside([sys.executable, str(CALLER), f"{console}:8461", token], PYTHONPATH=PATHS)
    assert done.stdout.split() == ["UNAUTHENTICATED", "UNAUTHENTICATED", "OK"], done.stderr


def test_the_agent_of_this_very_machine_reports_as_root_with_three_capabilities(project: Project, token: str) -> None:
    project.up(["agent"])
    agent = project.running["agent"]
    until(lambda: "this-machine" in {node["name"] for node in items(project, token, "/v1/nodes")}, f"{agent} reports")
    rights = re.findall(r"^CapBnd:\s+(\S+)", agent.execute(["cat", "/proc/self/status"]).stdout, re.MULTILINE)
    assert int(rights[0], 16) == 1 << DAC_OVERRIDE | 1 << KILL | 1 << SYS_PTRACE
    assert agent.stop() == 0, agent


def test_secrets_made_again_stay_and_a_new_node_gets_its_own(project: Project, token: str) -> None:
    folder = project.volume("secrets")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    project.run("secrets", command=[*project.services["secrets"]["command"], "--node", "edge-9"])
    changed = {str(file.relative_to(folder)) for file, content in before.items() if file.read_bytes() != content}
    assert changed == set(), "a node that joins changes nothing at the broker"
    assert {file.name for file in (folder / "agents" / "edge-9").iterdir()} == {"enrolment.creds", "ca.crt"}


def test_a_backup_is_taken_while_all_runs_and_restored_into_an_empty_project(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    taken = project.run("backup")
    folder = tmp_path_factory.mktemp("after")
    with Project(folder, project.images, VARIABLES, ["backup"], backups=project.backups) as after:
        after.up(["secrets", "postgres", "nats", "broker-ready"])
        until(partial(after.healthy, "postgres"), "the database is ready")
        restored = after.run("restore")
        after.up(["migrate", "console"])
        until(partial(after.healthy, "console"), "the console is healthy")
        admin = (after.volume("secrets") / "tokens" / "admin").read_text().strip()
        nodes = {node["name"] for node in items(after, admin, "/v1/nodes")}
        assert nodes == {"sim-01", "sim-02", "sim-03", "this-machine"}
    assert re.findall("state hash [0-9a-f]{64}", taken.output) == re.findall("state hash [0-9a-f]{64}", restored.output)


def test_every_container_stops_cleanly_on_request(project: Project) -> None:
    """The last test: nothing runs afterwards."""
    for name in ("fleet", *SERVICES, "nats", "postgres"):
        running = project.running[name]
        assert running.stop() == 0, running
