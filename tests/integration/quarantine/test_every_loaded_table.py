"""Every table that an adapter reads has a broken row planted in it somewhere here, or a reason why none can break."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from slackwater.store.keyed import KeyedTable

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
NEVER_BROKEN = {
    "ingestion": {
        "pg_class": "the catalogue",
        "pg_inherits": "the catalogue",
        "refusals": "counts, which no service reads back",
    },
    "prediction": {},
    "colocation": {"strategy_findings": "two texts that are compared, and not parsed"},
    "ensurance": {},
    "console": {
        "fleet_level": "typed sums, drawn as they are",
        "letter_replay": "typed columns, shown as they are",
    },
}
DOCUMENT_TABLES = {
    "prediction": {"policies"},
    "colocation": {"strategies"},
    "ensurance": {"node_qos", "pod_qos", "avoidance_actions", "autonomies"},
}
_READ = re.compile(r"\b(?:FROM|JOIN)\s+([a-z_]+)\b")
_MADE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)|create_resource_table\(op, \"([a-z_]+)\"\)")


def loaded(service: str) -> set[str]:
    """The tables of its schema that its adapters declare as keyed or name in statements."""
    adapters = importlib.import_module(f"slackwater.{service}.adapters").__path__[0]
    files = [*Path(adapters).rglob("*.py")]
    names = [file.stem for file in Path(adapters).glob("[a-z]*.py")]
    modules = [importlib.import_module(f"slackwater.{service}.adapters.{name}") for name in names]
    keyed = {table.name for module in modules for table in vars(module).values() if isinstance(table, KeyedTable)}
    read = "\n".join(file.read_text() for file in files)
    made = "\n".join(file.read_text() for file in (ROOT / f"services/slackwater/{service}/migrations").rglob("*.py"))
    tables = {first or second for first, second in _MADE.findall(made)} | {"pg_class", "pg_inherits"}
    return set(_READ.findall(read)) & tables | keyed | DOCUMENT_TABLES.get(service, set())


@pytest.mark.parametrize("service", NEVER_BROKEN)
def test_every_table_that_is_loaded_has_a_planted_case(service: str) -> None:
    planted = (HERE / f"test_{service}_rows.py").read_text()
    if service == "ensurance":
        planted += " ".join(DOCUMENT_TABLES[service])  # by KINDS
    missing = {
        table for table in loaded(service) - NEVER_BROKEN[service].keys() if not re.search(rf"\b{table}\b", planted)
    }
    assert not missing
    assert NEVER_BROKEN[service].keys() <= loaded(service), "these are read no more"
