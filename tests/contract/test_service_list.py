"""contracts/services.yaml is the only list of services: it agrees with the tree, and one entry adds a service."""

from __future__ import annotations

import configparser
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from contracts import generate
from contracts.deployment import VALUES, VALUES_SCHEMA, deployment_files

from slackwater.bus.admin.streams import load
from slackwater.cli.composition import PARTS
from slackwater.cli.composition import load as load_name
from slackwater.model.errors import Misconfigured
from slackwater.runtime import service_list as module
from slackwater.runtime.service_list import ServiceList, parse, service_list

ROOT = generate.ROOT
SOURCE = ROOT / "contracts" / "services.yaml"
LIST = service_list()
PAGE = ROOT / "docs" / "how-to" / "add-a-service.md"
PACKAGE = ROOT / "tests" / "unit" / "runtime" / "example_service" / "slackwater" / "tally"
(EXAMPLE,) = re.findall(r"^```yaml\n(  tally:\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
"""The entry of the example service."""


def test_the_list_names_the_packages_of_the_tree() -> None:
    packages = {file.parent.name for file in (ROOT / "services" / "slackwater").glob("*/__init__.py")}
    assert packages == {*LIST.packages}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_an_entry_says_what_its_package_is(part: Any) -> None:
    package = ROOT / "services" / "slackwater" / part.name
    assert part.has_schema == (package / "migrations" / "versions").is_dir()
    assert load_name(f"slackwater.{part.name}.settings:{part.settings}")
    assert load_name(f"slackwater.{part.name}.service:build")
    assert part.name in {flow.service for flow in generate.flows()}


def test_consumers_belong_to_services_and_partitioned_ones_to_those_with_partitions() -> None:
    partitioned = {name.partition("-")[0] for name, spec in load().consumers.items() if spec.partitioned}
    assert {name.partition("-")[0] for name in load().consumers} == {*LIST.services}
    assert partitioned == {*LIST.partitioned}


def test_dashboard_and_alert_rules_select_no_service_by_a_list() -> None:
    """A panel or rule is about one service's own metrics, or about all services whatever they are."""
    files = ROOT / "deploy/helm/slackwater/files"
    text = (files / "slackwater.json").read_text() + (files / "rules.yaml").read_text()
    alternatives = "|".join(LIST.services)
    assert not re.findall(rf'service=~?\\?"[^"$]*\b(?:{alternatives})\b', text)
    named = set(re.findall(r"\bslackwater_(?:[a-z]+)_", text))
    assert {f"slackwater_{name}_" for name in ("ingestion", "ensurance")} <= named


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What is generated, copied, with the package of an example service."""
    for path in deployment_files(ROOT, LIST):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(PACKAGE, tmp_path / "services" / "slackwater" / "tally")
    return tmp_path


@pytest.fixture
def extended() -> ServiceList:
    text = SOURCE.read_text()
    return parse(text.replace("\nnode_services:", f"\n{EXAMPLE}\nnode_services:"), "services.yaml")


def test_one_entry_adds_a_service_to_everything_that_names_services(tree: Path, extended: ServiceList) -> None:
    before = {path: (tree / path).read_text() for path in deployment_files(ROOT, LIST)}
    files = deployment_files(tree, extended)
    changed = {path for path, text in files.items() if before.get(path) != text}
    assert changed == {
        Path("docker-compose.yml"),
        VALUES,
        VALUES_SCHEMA,
        Path(".importlinter"),
        Path("docs/reference/services.md"),
    }
    compose = yaml.safe_load(files[Path("docker-compose.yml")])["services"]
    assert compose["tally"]["command"][:2] == ["run", "tally"]
    assert compose["tally"]["mem_limit"] == "256m"
    assert list(compose).index("tally") == list(compose).index("console") + 1
    values = yaml.safe_load(files[VALUES])["services"]
    assert list(values) == [*LIST.services, "tally"]
    assert values["tally"]["resources"]["requests"] == {"cpu": "50m", "memory": "96Mi"}
    allowed = json.loads(files[VALUES_SCHEMA])["properties"]["services"]["properties"]
    assert list(allowed) == [*LIST.services, "tally"]
    contracts = configparser.ConfigParser()
    contracts.read_string(files[Path(".importlinter")])
    for contract, option in (("libs", "forbidden_modules"), ("services", "modules"), ("roots", "source_modules")):
        assert "slackwater.tally" in contracts[f"importlinter:contract:{contract}"][option].split()
    assert "| `tally` | counts nodes by pool | partitions | 2 | 4 |" in files[Path("docs/reference/services.md")]


def test_a_service_that_left_takes_everything_with_it(tree: Path, extended: ServiceList) -> None:
    for path, text in deployment_files(tree, extended).items():
        (tree / path).write_text(text)
    assert deployment_files(tree, LIST) == {path: (ROOT / path).read_text() for path in deployment_files(ROOT, LIST)}


def test_the_code_that_asks_for_the_list_sees_the_entry(extended: ServiceList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "service_list", lambda: extended)
    assert module.service_names()[-1] == "tally"
    assert "tally" in extended.partitioned
    assert extended.services["tally"].nice == 4


def test_the_package_says_what_flows(tree: Path) -> None:
    (flow,) = generate.flows(tree)
    assert "node.described --> tally" in generate.flow_page([*generate.flows(), flow])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replicas: 2", "replicas: 1"),
        ("nice: 2", "nice: 20"),
        ("memory: 192Mi", "memory: 192"),
        ("rights: [read_streams", "rights: [read_everything"),
        ("  ingestion:", "  In-gestion:"),
        ("  agent: reads", "  console: reads"),
        ("role: turns", "rule: turns"),
        ("services:", "services: ["),
    ],
)
def test_a_list_that_says_something_else_is_refused_and_named(old: str, new: str) -> None:
    text = SOURCE.read_text()
    assert old in text
    with pytest.raises(Misconfigured, match=r"services\.yaml"):
        parse(text.replace(old, new, 1), "services.yaml")
