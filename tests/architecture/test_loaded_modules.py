"""What is really loaded and really reachable: the agent's weight, and the import contracts."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sources import ROOT

HEAVY = {
    "alembic",
    "asyncpg",
    "fastapi",
    "grpc",
    "jinja2",
    "numpy",
    "opentelemetry",
    "rich",
    "sqlalchemy",
    "typer",
    "uvicorn",
}
PORTIONS = [str(ROOT / "services"), str(ROOT / "libs")]


def loaded_by(*modules: str) -> set[str]:
    """Top-level names in sys.modules of a fresh process that imported `modules`."""
    code = f"import sys, {', '.join(modules)}; print(*{{name.split('.')[0] for name in sys.modules}})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PORTIONS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_agent_loads_nothing_heavy() -> None:
    assert loaded_by("slackwater.agent.service", "slackwater.agent.process") & HEAVY == set()


def test_grpc_is_loaded_only_where_it_is_served() -> None:
    modules = ("slackwater.cli.single_service", "slackwater.ingestion.service", "slackwater.console.service")
    assert loaded_by(*modules) & {"grpc", "google"} == set()


def test_what_is_heavy_would_be_seen() -> None:
    assert {"numpy", "sqlalchemy"} <= loaded_by("slackwater.prediction.service") & HEAVY
    assert "grpc" in loaded_by("slackwater.console.edge.rpc")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The imports of the modules, which the second look at the tree does not parse again."""
    return tmp_path_factory.mktemp("imports")


def check_contracts(cache: Path, *more: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*PORTIONS, *map(str, more)])}
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-logo", "--cache-dir", str(cache)]
    arguments = ["--config", str(ROOT / ".importlinter")]
    return subprocess.run(
        [*command, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_import_contracts_hold(cache: Path) -> None:
    done = check_contracts(cache)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contracts_see_a_detour(tmp_path: Path, cache: Path) -> None:
    """A further portion of the namespace: a domain that reaches SQLAlchemy through a module between."""
    planted = tmp_path / "portion" / "slackwater" / "planted"
    (planted / "domain").mkdir(parents=True)
    for folder in (planted, planted / "domain"):
        (folder / "__init__.py").touch()
    (planted / "between.py").write_text("import sqlalchemy\n")
    (planted / "domain" / "sums.py").write_text("from slackwater.planted import between\n")
    done = check_contracts(cache, tmp_path / "portion")
    assert done.returncode == 1
    assert "slackwater.planted.domain.sums" in done.stdout


def test_the_contracts_name_every_part() -> None:
    """A new service or library must be put into the lists of .importlinter."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    parts = {"services": set[str](), "libs": set[str]()}
    for portion, found in parts.items():
        folders = (ROOT / portion / "slackwater").iterdir()
        found.update(f"slackwater.{path.name}" for path in folders if (path / "__init__.py").is_file())
    # these stand on services, and no service on them
    beside = {"slackwater.backtest", "slackwater.cli", "slackwater.demo", "slackwater.simulation"}
    deciding = parts["services"] - beside
    assert set(contracts["importlinter:contract:libs"]["source_modules"].split()) == parts["libs"]
    assert set(contracts["importlinter:contract:libs"]["forbidden_modules"].split()) == parts["services"]
    assert set(contracts["importlinter:contract:services"]["modules"].split()) == deciding
    assert set(contracts["importlinter:contract:roots"]["source_modules"].split()) == deciding
