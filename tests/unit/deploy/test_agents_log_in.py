"""The agents of compose and Kubernetes log in as users that the broker knows, whatever their nodes are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from deploy_files import ROOT, documents

from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.process import access_of
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.cli.secret_files import Deployment, write_secrets
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform

NODES = ("edge-1", "ip-10-0-0-1.ec2.internal")
"""As kubeadm names them, and as clouds do: in a subject of the broker a dot is none."""


def of_kubernetes(node: str) -> dict[str, str]:
    (agent,) = [one for _, one in documents() if one["kind"] == "DaemonSet"]
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--node", "$(NODE_NAME)"]
    return {one["name"]: one["value"].replace("$(NODE_NAME)", node) for one in container["env"] if "value" in one}


def of_compose(node: str) -> dict[str, str]:
    agent = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["agent"]
    wherever = re.compile(r"\$\{SLACKWATER_NODE:-[^}]*\}")
    assert wherever.fullmatch(agent["command"][agent["command"].index("--node") + 1])
    return {name: wherever.sub(node, str(text)) for name, text in agent["environment"].items()}


def no_database(service: str) -> NoReturn:
    raise AssertionError(service)


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("environment", [of_kubernetes, of_compose])
def test_an_agent_is_a_user_whose_password_lies_in_the_folder_of_its_node(
    environment: Any, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_secrets(Deployment(tmp_path / "secrets", NODES, False, "postgres", ("nats",), False))
    folder = tmp_path / "secrets" / "agents" / node
    said = environment(node)
    for name, text in said.items():
        monkeypatch.setenv(name, str(folder / Path(text).name) if text.startswith("/") else text)
    clock = SystemClock()
    machine = SimulatedDriver("any", 1, clock, started_at=clock.now())
    agent = build(AgentSettings(node=node), Platform(LateBus(), clock, no_database, tmp_path), machine)
    access = access_of(agent)
    assert access.password_file == folder / "nats-password"
    password = (folder / "nats-password").read_text().strip()
    known = (tmp_path / "secrets" / "nats" / "access.conf").read_text()
    assert f'"user": "{access.user}", "password": "{password}"' in known


def test_an_agent_logs_in_as_itself_with_a_password_or_as_the_named_user(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    machine = SimulatedDriver("any", 1, clock, started_at=clock.now())
    agent = build(AgentSettings(node="n.1"), Platform(LateBus(), clock, no_database, Path()), machine)
    assert access_of(agent).user is None
    monkeypatch.setenv("SLACKWATER_NATS_PASSWORD", "secret")
    assert access_of(agent).user == "agent-n=2E1"
    monkeypatch.setenv("SLACKWATER_NATS_USER", "somebody")
    assert access_of(agent).user == "somebody"
