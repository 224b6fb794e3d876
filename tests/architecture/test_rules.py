"""The tree keeps the rules, and each rule can be broken: planted violations prove it."""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

import pytest
from rules import (
    MORE_ROOMS,
    REACHES,
    RULES,
    SERVICES,
    STARTS,
    bounded_json,
    bounded_yaml,
    domain_pure,
    foreign,
    front_door,
    known_rooms,
    libraries_below,
    long_ones,
    named_by_meaning,
    product_without_tests,
    servers_behind_ports,
    services_apart,
    usecases_without_io,
    within_caps,
)
from sources import ROOT, Source, sources, within

Rule = Callable[[Source], Iterator[str]]
DOMAIN = "services/slackwater/prediction/domain/planted.py"
USECASE = "services/slackwater/prediction/usecases/planted.py"
DOOR = "services/slackwater/prediction/__init__.py"
GOOD_DOOR = '"""Decides."""\n\nCONSUMES = ("a.b",)\nPUBLISHES: tuple[str, ...] = ()\nOWNS = ()\n'


def everything() -> list[Source]:
    return [*sources("services", "libs", "tests", "tools", "contracts")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert [broken for source in everything() for broken in rule(source)] == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (services_apart, USECASE, "from slackwater.colocation.usecases import full_pass"),
        (services_apart, USECASE, "def f():\n    import slackwater.console.service"),
        (services_apart, USECASE, "from slackwater import ensurance"),
        (services_apart, USECASE, "from ...colocation import ports"),
        (services_apart, USECASE, "load('slackwater.console.service:build')"),
        (services_apart, "services/slackwater/cli/planted.py", "from slackwater.prediction.domain import peaks"),
        (services_apart, "services/slackwater/demo/planted.py", "from slackwater.cli import stack"),
        (libraries_below, "libs/slackwater/runtime/planted.py", "import slackwater.agent"),
        (libraries_below, "libs/slackwater/resources/kinds/planted.py", "CELLS = 'slackwater.cli.planted_columns'"),
        (product_without_tests, "libs/slackwater/bus/planted.py", "from tests.support.bus import MemoryBus"),
        (product_without_tests, USECASE, "def f():\n    import tests.support.store"),
        (domain_pure, DOMAIN, "import sqlalchemy"),
        (domain_pure, DOMAIN, "from slackwater.events.envelope import Event"),
        (domain_pure, DOMAIN, "from slackwater.prediction.ports import Store"),
        (domain_pure, DOMAIN, "from ..ports import Store"),
        (domain_pure, DOMAIN, "from slackwater.model.time import SystemClock"),
        (domain_pure, DOMAIN, "from slackwater.model.identifiers import new_id"),
        (domain_pure, DOMAIN, "from slackwater.traces.readers.formats import read_trace"),
        (domain_pure, DOMAIN, "import random"),
        (domain_pure, DOMAIN, "from time import time"),
        (domain_pure, DOMAIN, "from uuid import uuid4"),
        (domain_pure, DOMAIN, "import logging"),
        (domain_pure, DOMAIN, "from datetime import datetime\nx = datetime.now()"),
        (domain_pure, DOMAIN, "import numpy as np\nx = np.random.default_rng()"),
        (domain_pure, DOMAIN, "x = open('file')"),
        (usecases_without_io, USECASE, "import asyncpg"),
        (usecases_without_io, USECASE, "from slackwater.prediction.adapters.postgres import Store"),
        (servers_behind_ports, "services/slackwater/prediction/adapters/planted.py", "import nats"),
        (servers_behind_ports, "libs/slackwater/runtime/planted.py", "from nats.js import api"),
        (servers_behind_ports, "services/slackwater/prediction/edge/planted.py", "from sqlalchemy import text"),
        (servers_behind_ports, "libs/slackwater/bus/planted.py", "import asyncpg"),
        (servers_behind_ports, "services/slackwater/cli/planted.py", "import alembic.op"),
        (known_rooms, "services/slackwater/prediction/attic/planted.py", ""),
        (known_rooms, "services/slackwater/prediction/planted.py", ""),
        (front_door, DOOR, GOOD_DOOR.replace('"""Decides."""', "")),
        (front_door, DOOR, GOOD_DOOR + "import os\n"),
        (front_door, DOOR, GOOD_DOOR.replace("OWNS = ()", "")),
        (front_door, DOOR, GOOD_DOOR.replace("OWNS = ()", "OWNS = tuple(names())")),
        (front_door, DOOR, GOOD_DOOR.replace("OWNS = ()", 'OWNS = ("a" "b")')),
        (named_by_meaning, "libs/slackwater/bus/utils.py", ""),
        (named_by_meaning, "tests/unit/common/test_planted.py", ""),
        (within_caps, "libs/slackwater/bus/planted.py", "\n" * 451),
        (bounded_yaml, "services/slackwater/cli/planted.py", "import yaml\nx = yaml.safe_load(text)"),
        (
            bounded_json,
            "services/slackwater/agent/adapters/planted.py",
            "import json\nx = json.loads(file.read_text())",
        ),
        (bounded_yaml, "libs/slackwater/store/planted.py", "import yaml\nx = list(yaml.load_all(text, Loader))"),
        (within_caps, "libs/slackwater/bus/planted.py", "def f():\n" + "    x = 1\n" * 70),
    ],
)
def test_a_planted_violation_is_found(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(PurePosixPath(path), text)))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (services_apart, "services/slackwater/cli/planted.py", "from slackwater.console.service import routers_of"),
        (domain_pure, DOMAIN, "import math\nimport numpy as np\nfrom slackwater.model.errors import InvalidInput"),
        (domain_pure, DOMAIN, "from slackwater.prediction.domain import buckets"),
        (usecases_without_io, USECASE, "import asyncio\nfrom slackwater.prediction.ports import Store"),
        (servers_behind_ports, "services/slackwater/prediction/adapters/planted.py", "import sqlalchemy"),
        (servers_behind_ports, "services/slackwater/prediction/migrations/versions/0002_x.py", "import alembic"),
        (front_door, DOOR, GOOD_DOOR),
        (bounded_json, "libs/slackwater/bus/planted.py", "import json\nx = json.loads(answer.data)"),
        (bounded_yaml, "services/slackwater/cli/planted.py", "import yaml\nx = yaml.safe_dump(document)"),
        (within_caps, "libs/slackwater/bus/planted.py", "def f():\n" + "    x = 1\n" * 69),
    ],
)
def test_what_is_allowed_is_not_reported(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(PurePosixPath(path), text))) == []


def test_the_rules_know_every_service() -> None:
    assert {source.part for source in sources("services")} - {""} == SERVICES


def test_every_test_file_has_a_name_of_its_own() -> None:
    """Two of one name cannot be collected by one process, and which files share one changes with their number."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_scene_has_a_name_of_its_own() -> None:
    """All their folders are on the path, also of processes that a test starts."""
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["pythonpath"]
    names = Counter(
        path.stem
        for folder in folders
        if folder.startswith("tests/") or folder == "tools"
        for path in (ROOT / folder).glob("*.py")
        if not path.stem.startswith(("test_", "__", "conftest"))
    )
    assert [name for name, count in names.items() if count > 1 or name in sys.stdlib_module_names] == []


def test_no_unused_exception_is_kept() -> None:
    used = {(source.part, target) for source in sources("services") for target in foreign(source)}
    for service, allowed in REACHES.items():
        for module in allowed:
            assert any(part == service and within(target, module) for part, target in used), f"{service}: {module}"
    assert used >= STARTS
    for service, rooms in MORE_ROOMS.items():
        for room in rooms:
            folder = ROOT / "services" / "slackwater" / service
            assert (folder / room).is_dir() or (folder / f"{room}.py").is_file(), f"{service}: {room}"


def test_long_files_and_functions_are_pointed_out() -> None:
    """A report to read (pytest -s), not a limit: a file that is one concept may be longer."""
    found = sorted(
        (long for source in everything() for long in long_ones(source, 350, 40)), key=lambda one: one[1], reverse=True
    )
    for what, lines in found:
        sys.stdout.write(f"{lines:5} lines: {what}\n")
    assert all(lines > 40 for _, lines in found)
