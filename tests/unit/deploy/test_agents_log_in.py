"""The agents of compose and Kubernetes log in as users that the broker knows, whatever their nodes are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from deploy_files import ROOT
from tests.kubernetes.manifests import find, release

from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.node_agent import AgentService
from slackwater.agent.process import connector
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.connect.access import NatsAccess, read_credentials
from slackwater.cli.secret_files import Deployment, write_secrets
from slackwater.events.envelope import subject_token
from slackwater.model.errors import Misconfigured
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform

NODES = ("edge-1", "ip-10-0-0-1.ec2.internal")
"""As kubeadm names them, and as clouds do: in a subject of the broker a dot is none."""


def of_kubernetes(node: str) -> dict[str, str]:
    agent = find(release(), "DaemonSet", "agent")
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
def test_an_agent_has_the_enrolment_in_the_folder_of_its_node(
    environment: Any, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_secrets(Deployment(tmp_path / "secrets", NODES, False, "postgres", ("nats",), False))
    folder = tmp_path / "secrets" / "agents" / node
    for name, text in environment(node).items():
        monkeypatch.setenv(name, str(folder / Path(text).name) if text.startswith("/") else text)
    access = NatsAccess()
    assert access.enrolment_file == folder / "enrolment.creds"
    ticket = read_credentials(access.enrolment_file)
    assert ticket.name == subject_token(node)
    authority = AccessAuthority.of_seed((tmp_path / "secrets" / "ingestion" / "access.seed").read_text())
    assert authority.is_valid_ticket(ticket)
    assert connector(agent_of(node, tmp_path), "tls://nats:4222", tmp_path)


def agent_of(node: str, folder: Path) -> AgentService:
    clock = SystemClock()
    machine = SimulatedDriver("any", 1, clock, started_at=clock.now())
    agent = build(AgentSettings(node=node), Platform(LateBus(), clock, no_database, folder), machine)
    assert isinstance(agent, AgentService)
    return agent


def test_what_an_agent_cannot_log_in_with_is_named_at_its_start(tmp_path: Path) -> None:
    agent = agent_of("n.1", tmp_path)
    with pytest.raises(Misconfigured, match=r"none\.creds"):
        connector(agent, "nats://127.0.0.1", tmp_path, NatsAccess(enrolment_file=tmp_path / "none.creds"))
    with pytest.raises(Misconfigured, match="without credentials or TLS"):
        connector(agent, "nats://h", tmp_path, NatsAccess())
    assert connector(agent, "nats://127.0.0.1", tmp_path, NatsAccess())
