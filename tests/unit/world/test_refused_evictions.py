"""A world in which budgets refuse evictions: what is refused relieves nothing, and the next candidate is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.world.mutants.find import PLANS
from tests.world.plan import Plan
from tests.world.refusals import is_of_two, is_selected
from tests.world.trace import Kind

PLAN = PLANS / "evictions-refused-by-a-budget.json"


def test_the_next_candidate_is_evicted_while_a_budget_refuses_the_first(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = [sys.executable, "-m", "tests.world", "--plan-file", str(PLAN), "--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = Plan.from_json(PLAN.read_text())
    share = plan.faults[0].amount
    steps = [json.loads(line) for line in trace.read_text().splitlines()]
    taken_after_a_refusal = 0
    for fault in plan.faults:
        steps_of_node = [step for step in steps if step["process"] == fault.target and step["at"] < fault.seconds]
        answers = [step["at"] for step in steps_of_node if ".eviction.completed." in step["subject"]]
        signalled: dict[str, float] = {}
        for step in steps_of_node:
            if step["kind"] == Kind.POD_SIGNALLED:
                signalled.setdefault(step["subject"], step["at"])
        assert not [uid for uid in signalled if is_selected(uid, share)]
        ended = list(signalled.values())
        refused = [at for number, at in enumerate(answers) if sum(began < at for began in ended) <= number]
        assert refused, "each node refuses one"
        taken_after_a_refusal += sum(began > refused[0] for began in ended)
    assert taken_after_a_refusal


def test_pods_of_one_and_of_two_budgets_are_drawn() -> None:
    pods = [f"pod-{number}" for number in range(60)]
    selected = [uid for uid in pods if is_selected(uid, 0.5)]
    assert 10 < len(selected) < 50
    assert 0 < sum(map(is_of_two, selected)) < len(selected)
    assert not any(is_selected(uid, 0.0) for uid in pods)
