"""No file but contracts/services.yaml and what is generated from it lists the services."""

from __future__ import annotations

import configparser
import re

from sources import ROOT, sources, tracked

from slackwater.runtime.service_list import service_names

GENERATED = frozenset({"docker-compose.yml", "kustomization.yaml", "networkpolicies.yaml", "services.yaml"})
PAST = frozenset({"test_plain_rows.py"})
"""Names the services of one past revision of the schemas."""


def test_no_other_file_lists_the_services() -> None:
    code = [path for path in tracked() if path.suffix in (".py", ".yaml", ".yml", ".toml") or path.name == "Makefile"]
    names = [re.compile(rf"\b{name}\b") for name in service_names()]
    repeated = [
        str(path)
        for path in code
        if path.name not in GENERATED | PAST
        if any(all(name.search(line) for name in names) for line in (ROOT / path).read_text().splitlines())
    ]
    assert repeated == []


def test_every_library_stands_in_the_import_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    named = contracts["importlinter:contract:libs"]["source_modules"].split()
    libraries = {source.part for source in sources("libs") if source.part}
    assert set(named) == {f"slackwater.{library}" for library in libraries}
