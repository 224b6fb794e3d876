"""The Dockerfile says what the code needs, and copies what the wheel is made of."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from fnmatch import fnmatch

import pytest
from deploy_files import ROOT

from slackwater.runtime.settings import USUAL_PORT, USUAL_RPC_PORT

DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
BUILD, IMAGE = re.split(r"^FROM \S+ AS image$", DOCKERFILE, flags=re.MULTILINE)


def copied() -> list[str]:
    found = [line.split()[1:-1] for line in BUILD.splitlines() if line.startswith("COPY ")]
    return [source for sources in found for source in sources]


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
    installs = re.findall(r"pip install ([^\n]*)", BUILD)
    assert installs[0] == "--require-hashes --only-binary=:all: -r requirements.lock"
    assert all("--no-index" in install and "--no-deps" in install for install in installs[1:])
    assert "apt-get" not in DOCKERFILE
    assert not re.search(r"https?://(?!127\.0\.0\.1)", DOCKERFILE)


def test_it_runs_as_nobody_special_on_the_usual_ports() -> None:
    assert re.findall(r"^USER (\S+)$", IMAGE, re.MULTILINE) == ["65532:65532"]
    assert re.findall(r"^EXPOSE (.*)$", IMAGE, re.MULTILINE) == [f"{USUAL_PORT} {USUAL_RPC_PORT}"]
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", IMAGE, re.MULTILINE)[0]) == ["slackwater"]


def test_its_health_check_is_a_module_of_ours() -> None:
    found = re.search(r"HEALTHCHECK .*\\\n\s+CMD (.*)$", IMAGE, re.MULTILINE)
    assert found is not None
    command = json.loads(found[1])
    assert command[:2] == ["python", "-m"]
    assert importlib.util.find_spec(command[2]) is not None
    assert command[3] == f"http://127.0.0.1:{USUAL_PORT}/readyz"


def test_base_images_of_both_stages_are_one_argument() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
