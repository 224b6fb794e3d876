"""docker-compose.yml is held to the code: commands parse, variables are read, secrets are made, nothing is open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from deploy_files import NODE, ROOT, files_below, parse
from tests.support.servers import NATS_IMAGE, POSTGRES_IMAGE

from slackwater.bus.access.tokens import UserCredentials, claims_of
from slackwater.cli.composition import PARTS
from slackwater.runtime.settings import USUAL_PORT, USUAL_RPC_PORT

OURS = "slackwater:local"
CAPABILITIES = {
    "agent": {"DAC_OVERRIDE", "KILL", "SYS_PTRACE"},
    "backup": {"DAC_OVERRIDE"},  # the folder on the machine may have any owner
    "restore": {"DAC_READ_SEARCH"},
}


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if one["image"] == OURS}


def test_every_deployable_is_a_service_and_the_servers_are_those_that_the_tests_use(compose: dict[str, Any]) -> None:
    assert {part.name for part in PARTS} <= set(compose["services"])
    assert compose["services"]["postgres"]["image"] == POSTGRES_IMAGE
    assert compose["services"]["nats"]["image"] == NATS_IMAGE
    assert (ROOT / compose["x-slackwater"]["build"]["dockerfile"]).is_file()


def test_every_command_is_one_that_the_cli_takes(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, one in ours(compose).items():
        if "entrypoint" in one:
            assert one["entrypoint"][:3] == ["python", "-m", "slackwater.runtime.probe"], name
            continue
        for variable, value in one.get("environment", {}).items():
            monkeypatch.setenv(variable, str(value))
        parse(one["command"])


def test_a_service_runs_what_its_name_says(compose: dict[str, Any]) -> None:
    for part in PARTS:
        command = compose["services"][part.name]["command"]
        assert command[0] == "agent" if part.name == "agent" else command[:2] == ["run", part.name]


def test_every_variable_is_read(compose: dict[str, Any], variables: set[str]) -> None:
    for name, one in ours(compose).items():
        assert set(one.get("environment", {})) <= variables, name


def test_each_sees_its_own_folder_of_secrets_and_every_file_it_names_is_made(
    compose: dict[str, Any], secrets: Path
) -> None:
    for name, one in compose["services"].items():
        for mount in one.get("volumes", []):
            if not isinstance(mount, dict) or name == "secrets":
                continue
            assert mount["read_only"]
            assert mount["volume"]["nocopy"], "compose makes all containers before `secrets` has made the folders"
            folder = secrets / mount["volume"]["subpath"]
            assert mount["volume"]["subpath"] in (name, f"agents/{NODE}"), name
            environment = {key: str(value) for key, value in one.get("environment", {}).items()}
            for file in files_below(mount["target"], environment):
                assert (folder / file).is_file(), (name, file)


def test_the_broker_finds_its_files_where_its_configuration_says(compose: dict[str, Any], secrets: Path) -> None:
    nats = compose["services"]["nats"]
    assert nats["command"][:2] == ["--config", "/etc/nats/nats-server.conf"]
    assert [mount["target"] for mount in nats["volumes"] if isinstance(mount, dict)] == ["/etc/nats"]
    assert "nats:/data" in nats["volumes"]
    assert 'store_dir: "/data"' in (secrets / "nats" / "nats-server.conf").read_text()
    access = (secrets / "nats" / "access.conf").read_text()
    assert '"/etc/nats/tls.crt"' in access


def test_every_container_logs_in_as_a_user_of_the_broker(compose: dict[str, Any], secrets: Path) -> None:
    access = (secrets / "nats" / "access.conf").read_text()
    accounts = str([claims_of(token) for token in re.findall(r'"(eyJ[^"]+)"', access)])
    for name, one in ours(compose).items():
        if "SLACKWATER_NATS_CREDENTIALS_FILE" in one.get("environment", {}):
            assert UserCredentials.parse((secrets / name / "nats.creds").read_text()).signer in accounts
    assert NODE not in accounts


def test_ports_are_the_usual_ones_and_only_this_machine_reaches_them(compose: dict[str, Any]) -> None:
    published = [port for one in compose["services"].values() for port in one.get("ports", [])]
    assert published == [f"127.0.0.1:{port}:{port}" for port in (USUAL_PORT, USUAL_RPC_PORT)]
    for part in PARTS:
        if part.name != "agent":
            assert compose["services"][part.name]["command"][-2:] == ["--port", str(USUAL_PORT)]


def test_no_container_has_more_rights_than_it_needs(compose: dict[str, Any]) -> None:
    for name, one in ours(compose).items():
        assert one["read_only"], name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in one, name
        assert ("user" in one) == (name in ("secrets", *CAPABILITIES)), name
        assert set(one.get("cap_add", [])) == CAPABILITIES.get(name, set()), name


def test_every_dependency_exists_and_what_must_be_healthy_has_a_check(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, one in services.items():
        for needed, condition in one.get("depends_on", {}).items():
            assert needed in services, (name, needed)
            if condition["condition"] == "service_healthy":  # the image's own check, unless it says otherwise
                assert not services[needed].get("healthcheck", {}).get("disable"), (name, needed)
    for part in PARTS:
        if part.name != "agent":
            assert "healthcheck" not in services[part.name], "the image checks /readyz"


def test_no_secret_is_written_down(compose: dict[str, Any]) -> None:
    for name, one in compose["services"].items():
        for variable in one.get("environment", {}):
            secret = any(word in variable for word in ("PASSWORD", "TOKEN", "DSN"))
            assert not secret or variable.endswith(("_FILE", "_TOKENS_FILE")), (name, variable)
