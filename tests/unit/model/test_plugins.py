"""Entry points of installed distributions are read once for each search path."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from slackwater.model.plugins import entry_points

GROUP = "slackwater.tests"


def test_what_is_on_the_search_path_is_found_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert entry_points(GROUP) == ()
    metadata = tmp_path / "others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nodd = others:odd\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [(entry.name, entry.value) for entry in entry_points(GROUP)] == [("odd", "others:odd")]
    monkeypatch.setattr(importlib.metadata, "entry_points", None)
    assert [entry.name for entry in entry_points(GROUP)] == ["odd"]
