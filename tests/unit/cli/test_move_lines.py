"""`slackwater why migration/NAME`: where the move is, the newest decision with its inputs, and the steps before it."""

from __future__ import annotations

from typing import Any

from slackwater.cli.migration_columns import move_why_lines


def record(reason: str, text: str, at: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"id-{reason}",
        "subject": "first",
        "reason": reason,
        "rule": "arbitrate",
        "decided_at": at,
        "remaining_because": text,
        "inputs": [],
        "terms": [],
        **more,
    }


def test_a_held_job_tells_its_limit_and_since_when() -> None:
    held = record(
        "migration_held",
        "held by node of n0: 2 of 2",
        "2026-01-05T00:00:03Z",
        terms=[{"name": "limit", "value": 2, "note": ""}, {"name": "in use", "value": -2, "note": "n0"}],
        inputs=[
            {"name": "filter", "value": "node", "unit": "", "source": "arbitrationargs/default"},
            {"name": "target", "value": "", "unit": "", "source": "ledger"},
        ],
    )
    held_by = {"filter": "node", "scope": "n0", "count": 2, "limit": 2, "since": "2026-01-05T00:00:03+00:00"}
    now = {"phase": "Pending", "step": "waiting", "heldBy": held_by}
    assert list(move_why_lines({"now": now, "records": [held]})) == [
        "now Pending, waiting: node n0, 2 of 2 in use, since 2026-01-05T00:00:03+00:00",
        "migration first, 2026-01-05 00:00:03Z: held by node of n0: 2 of 2",
        "migration_held, rule arbitrate, decision id-migration_held",
        "  in use 2 of 2",
        "  filter: node (arbitrationargs/default)",
    ]


def test_the_steps_before_the_newest_are_one_line_each() -> None:
    steps = [
        record("migration_succeeded", "moved (Complete) to n2", "2026-01-05T00:00:06Z"),
        record("migration_stepped", "evicting to n2", "2026-01-05T00:00:05Z"),
    ]
    lines = list(move_why_lines({"now": None, "records": steps}))
    assert lines[0] == "migration first, 2026-01-05 00:00:06Z: moved (Complete) to n2"
    assert lines[-1] == "2026-01-05 00:00:05Z migration_stepped: evicting to n2"
