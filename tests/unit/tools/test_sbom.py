"""The bill of materials names what is locked, and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sbom = load()
LOCK = f"""\
typing_Extensions==4.1 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
numpy==2.4 ; python_full_version < '3.12' \\
    --hash=sha256:{"c" * 64}
numpy==2.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{"d" * 64}
"""


def environment(*parts: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [
            {"bom-ref": f"{name}=={version}", "name": name, "version": version, "externalReferences": ["somewhere"]}
            for name, version in parts
        ],
        "dependencies": [{"ref": "root", "dependsOn": ["numpy==2.4", "pytest==9"]}, {"ref": "pytest==9"}],
    }


def test_versions_and_hashes_come_from_the_lock_also_when_markers_lock_two_versions() -> None:
    lock = sbom.locked(LOCK)
    assert lock == {"typing-extensions": {"4.1": ["a" * 64, "b" * 64]}, "numpy": {"2.4": ["c" * 64], "2.5": ["d" * 64]}}


def test_what_only_development_needs_is_left_out_and_so_are_its_edges_and_addresses() -> None:
    made = sbom.bill(environment(("numpy", "2.4"), ("pytest", "9")), sbom.locked(LOCK))
    assert [part["name"] for part in made["components"]] == ["numpy"]
    assert made["components"][0]["properties"] == [{"name": "slackwater:sha256", "value": "c" * 64}]
    assert "externalReferences" not in made["components"][0]
    assert made["dependencies"] == [{"ref": "root", "dependsOn": ["numpy==2.4"]}]


def test_an_installed_version_that_is_not_locked_is_refused() -> None:
    with pytest.raises(ValueError, match=r"numpy 2\.3 is installed, 2\.4 or 2\.5 is locked"):
        sbom.bill(environment(("numpy", "2.3")), sbom.locked(LOCK))


def test_our_own_lock_has_a_hash_for_everything() -> None:
    lock = sbom.locked(sbom.LOCK.read_text())
    assert {"nats-py", "asyncpg", "grpcio"} <= set(lock)
    assert all(hashes for versions in lock.values() for hashes in versions.values())
