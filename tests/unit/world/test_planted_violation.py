"""A violation that is planted is shrunk to what it needs, replayed from its file, and drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.world.plan import Plan, PlannedFault

PROGRAM = """
import sys
import tests.world.history as history
from tests.world.__main__ import main
from tests.world.invariants import Invariant, Violation
from tests.world.trace import Kind

class Planted(Invariant):
    NAME = "planted"
    KINDS = (Kind.FAULT_BEGAN, Kind.STORED)
    is_killed = False

    def on_step(self, step):
        self.is_killed = self.is_killed or step.subject == "broker killed"
        if self.is_killed and step.kind is Kind.STORED:
            raise Violation(f"{step.process} stored {step.detail['id']} after the broker was killed")

history.invariants_of = lambda _: (Planted,)
sys.exit(main())
"""
NEEDED = PlannedFault("broker killed", "broker", 9.0, 2.0)
FAULTS = (
    PlannedFault("clock drift", "agent-01", 6.0, 8.0, 0.01),
    PlannedFault("cut", "ingestion-0>postgres", 7.0, 1.0),
    NEEDED,
    PlannedFault("crash", "prediction-1", 10.0, 1.0),
)


def world(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_planted_violation_is_shrunk_and_drawn(tmp_path: Path) -> None:
    whole, smallest, page = tmp_path / "whole.json", tmp_path / "smallest.json", tmp_path / "page.html"
    plan = Plan(5, nodes=2, fault_seconds=16.0, quiet_seconds=4.0, rest_seconds=2.0, faults=FAULTS)
    whole.write_text(plan.to_json())
    done = world("--plan-file", whole, "--shrink", "--tries", 25, "--smallest", smallest)
    assert done.returncode == 1, done.stdout + done.stderr
    found = Plan.from_json(smallest.read_text())
    assert [fault.kind for fault in found.faults] == [NEEDED.kind]
    assert (found.nodes, found.replicas, found.clients) == (1, 1, 0)
    again = world("--plan-file", smallest, "--html", page)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "VIOLATED: planted: " in again.stdout
    assert "<h1>planted</h1>" in page.read_text()
