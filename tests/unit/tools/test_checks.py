"""The checks run two at a time, each with its outcome, and a failure has its output."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("checks", ROOT / "tools" / "checks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "checks", module)  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_all_run_and_one_that_fails_is_shown(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = (
        checks.Check("types", [python("print('wrong type'); raise SystemExit(2)")]),
        checks.Check("style", [python("print('well')"), python("")]),
        checks.Check("second command", [python(""), python("raise SystemExit(1)")]),
    )
    monkeypatch.setattr(checks, "CHECKS", made)
    assert checks.main([]) == 1
    shown = capfd.readouterr().out
    assert "  types: failed, " in shown
    assert "wrong type\n" in shown
    assert "  style: " in shown
    assert "well" not in shown
    assert "second command: failed, " in shown
    monkeypatch.setattr(checks, "CHECKS", made[1:2])
    assert checks.main([]) == 0


def test_types_are_checked_only_where_they_are_asked_for(checks: ModuleType) -> None:
    assert checks.TYPES not in checks.chosen([])
    assert checks.chosen(["--types"]) == (checks.TYPES, *checks.CHECKS)
