"""The whole stack in one process on simulated machines: prod rises, batch gives way and gets everything back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST = ["nice", "-n", "-10"] if os.geteuid() == 0 else []
"""The tides follow the wall clock, and batch must have everything back before the next: where we may, this run goes
before the tests of the other lanes. In a session of its own, too: Linux shares the cores among sessions first."""


@pytest.mark.timeout(180)
def test_the_main_job_closes_the_loop_on_the_simulated_driver(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}",
        "SLACKWATER_STATE_DIR": str(tmp_path),
    }
    flags = ("--demo", "--driver", "simulated", "--nodes", "3", "--seconds", "120", "--port", "0")
    done = subprocess.run(
        [*FIRST, sys.executable, "-m", "slackwater.cli", "up", *flags],
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "run-summary.json").read_text())
    assert summary["driver"] == "simulated"
    assert summary["failures"] == []
    assert summary["restored_exactly"] is True
    values = {turn["variant"]: turn["values"] for turn in summary["scenes"]["fleet"]["turns"]}
    assert values["slackwater"]["batch_cpu"] < values["plain"]["batch_cpu"]
    assert values["slackwater"]["pressure"] < values["plain"]["pressure"]
    assert "lend, memory, cache, cpu, quotas: left out, it needs writable cgroups" in done.stdout
