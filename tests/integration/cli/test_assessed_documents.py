"""What `assess -o yaml` prints is applied as it is to a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_histories import write_trace
from typer.testing import CliRunner
from whole_server import TOKEN, WholeServer, server

from slackwater.cli.main import app

__all__ = ["server"]


@pytest.mark.parametrize("pool", [None, "assessed-pool"])
def test_the_printed_documents_are_applied_and_in_force(
    server: WholeServer, pool: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_SERVER", server.url)
    monkeypatch.setenv("SLACKWATER_TOKEN", TOKEN)
    trace = write_trace(tmp_path / "usage.csv", hours=80)
    of_pool = () if pool is None else ("--pool", pool)
    assessed = CliRunner().invoke(
        app, ["assess", "--trace", str(trace), "--vms-per-node", "3", "--model", "max", *of_pool, "-o", "yaml"]
    )
    assert assessed.exit_code == 0, assessed.output
    applied = CliRunner().invoke(app, ["apply", "-f", "-"], input=assessed.stdout)
    assert applied.exit_code == 0, applied.output
    shown = CliRunner().invoke(app, ["get", "colocationstrategies", "-o", "json"])
    stored = {one["metadata"]["name"]: one["spec"] for one in json.loads(shown.stdout)["items"]}
    assert stored[pool or "default"]["cpuReclaimThresholdPercent"] == 60
    if pool is not None:  # the cluster's own documents cannot be deleted
        removed = CliRunner().invoke(app, ["delete", "-f", "-"], input=assessed.stdout)
        assert removed.exit_code == 0, removed.output
