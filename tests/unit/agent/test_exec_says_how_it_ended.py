"""`slackwater exec` says why its command was evicted, how it ended, and where to look for its checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.agent.adapters.linux import supervise


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended within it with status 0: a checkpoint that it wrote is whole (working directory /srv/render)"),
        (143, "ended within it with status 143: a checkpoint may be incomplete (working directory /srv/render)"),
        (137, "killed after it: a checkpoint may be incomplete (working directory /srv/render)"),
    ],
)
def test_why_how_and_where(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = datetime(2026, 1, 5, 10, tzinfo=UTC)
    eviction = SimpleNamespace(writer="ensurance", started_at=started, grace_seconds=5.0, decision_id="d1")
    monkeypatch.setattr(supervise, "eviction_of", lambda *_: eviction)
    layout: Any = SimpleNamespace(agent_dir=Path("/nowhere"))
    pod: Any = SimpleNamespace(uid="1", name="render-1")
    supervise._report_eviction(layout, pod, code, "/srv/render")
    line = capsys.readouterr().err
    assert line.startswith("slackwater exec: render-1: evicted for ensurance, SIGTERM at 10:00:00Z with 5 s of grace, ")
    assert said in line
    assert "slackwater why decision/d1" in line
